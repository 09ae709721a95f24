//! A client that drives a card from power-on to a registered key, as the stock driver does.
