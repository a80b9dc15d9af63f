"""All attacks, in the order they run: those on leaks first, those that may exhaust the server last."""

from rollouthub_registry.check.thorough.attack import Attack
from rollouthub_registry.check.thorough.attacks import (
    abandoned_episodes,
    code_injection,
    conformance_suites,
    control_plane,
    cross_episode,
    discovery,
    forged_tokens,
    invalid_arguments,
    late_calls,
    malformed_requests,
    other_seats,
    shell_tools,
    third_party_clients,
    unlisted_names,
    verifier_messages,
)

ATTACKS: tuple[Attack, ...] = (
    *discovery.ATTACKS,
    *unlisted_names.ATTACKS,
    *other_seats.ATTACKS,
    *control_plane.ATTACKS,
    *late_calls.ATTACKS,
    *forged_tokens.ATTACKS,
    *cross_episode.ATTACKS,
    *verifier_messages.ATTACKS,
    *shell_tools.ATTACKS,
    *code_injection.ATTACKS,
    *invalid_arguments.ATTACKS,
    *third_party_clients.ATTACKS,
    *conformance_suites.ATTACKS,
    *malformed_requests.ATTACKS,
    *abandoned_episodes.ATTACKS,
)
