"""What can be taken out of the explorer: tables, arrays and pictures as files, text for the clipboard."""
