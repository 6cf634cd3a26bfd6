"""What is drawn: numbers, colours and labels, without a screen."""
