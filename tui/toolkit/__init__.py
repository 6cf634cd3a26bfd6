"""What Textual lacks: output, themes, colours, keys, background tasks. Only this folder may import `textual._*`."""
