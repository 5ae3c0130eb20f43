//! Tools through their public surface.
