//! The wires of other gateways, translated at the edge: each dialect turns its own shapes into the engine's verbs and
//! back. Nothing behind this folder knows that there is more than one.

pub(crate) mod native;
pub(crate) mod openclaw;
pub(crate) mod openfoal;
