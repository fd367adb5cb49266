"""Near-isometric linear embeddings: NuMax, FroMax, NILE-Pro, secants by column generation."""
