//! Views and what is made of them.
