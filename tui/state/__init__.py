"""What the explorer shows and knows, as plain values, each piece in one place; nothing here imports Textual."""
