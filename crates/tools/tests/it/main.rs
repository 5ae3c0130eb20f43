//! Tools through their public surface.

mod web;
