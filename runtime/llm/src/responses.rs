//! OpenAI Responses: `POST <base>/responses`. Nothing is kept at the provider (`store: false`): the whole conversation
//! goes with each request, reasoning as the encrypted items that it came in.

pub(crate) mod read;
pub(crate) mod stream;
pub(crate) mod write;
