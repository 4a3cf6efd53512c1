//! The model client against what we did not write: the SDKs of providers judge its corpus.

mod corpus;
