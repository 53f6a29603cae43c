def refactor_composite_controller_config(arm, robot, arms):
    return {"body_parts": {arms[0]: arm}}
