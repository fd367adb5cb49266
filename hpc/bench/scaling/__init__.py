"""What a rank holds and sends as ranks are added."""
