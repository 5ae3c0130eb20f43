//! Thinking levels, as people write them and as models take them.
