//! Programs that misbehave, through the public surface.
