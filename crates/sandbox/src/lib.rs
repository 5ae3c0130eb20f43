//! Running programs, confined or not. Whatever is started dies on a timeout, an abort, and with the gateway.
