"""Views of a model: what they show, and what keys do there."""
