"""Judge unlearning as the field does: efficiency, utility and forgetting, each against training from nothing."""
