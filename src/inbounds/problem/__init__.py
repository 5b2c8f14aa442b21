"""What is asked: states, actions, constraints, policies, and the simulator that learners see."""
