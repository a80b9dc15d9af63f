"""An environment class hosted inside this process: the contract without a wire."""
