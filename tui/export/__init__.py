"""Exports: tables, arrays and pictures as files, and text for the clipboard."""
