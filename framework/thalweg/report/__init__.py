"""Tables and pictures of what a run did."""
