"""What moves parameters: an action and a parameter dict go in, another one or a proof comes out."""
