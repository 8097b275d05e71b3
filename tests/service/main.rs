//! The client against servers that speak raw bytes, so that client and server can't share a codec
//! bug. Each test writes down what the server does and looks at what arrived there.

mod answers;
mod contract;
mod failures;
mod secrets;
mod stream;
mod support;
mod tls;
mod transport;
mod wire;
