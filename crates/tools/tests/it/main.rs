//! Tools through their public surface.

mod loops;
