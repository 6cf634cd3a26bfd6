"""The explorer, driven through keys and looked at as a screen."""
