"""What tests share, and no test: simulations, servers, oracles, and programs that tests start."""
