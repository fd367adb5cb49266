"""The one loop that runs every solver."""
