"""What the problem is: the model, policies and their values, and the simulator that learners see."""
