"""tests/soak for a short while."""
import sys

from grokd_server import ROOT

sys.path.insert(0, str(ROOT / "tests/soak"))
import crowd  # noqa: E402
import soak  # noqa: E402


def test_clients_of_every_kind_get_their_own_answers_and_leave_nothing_behind(program, tmp_path, request):
    seconds = request.config.getoption("--soak-seconds")
    wrong, figures = soak.soak(program, seconds, 24, 7, [], tmp_path)
    print("\n" + figures)
    assert wrong == []


def test_crowds_of_bad_clients_fail_no_good_request(program, tmp_path):
    lines, wrong = crowd.run(program, 0.06, [], tmp_path)
    print("\n" + "\n".join(lines))
    assert wrong == []
