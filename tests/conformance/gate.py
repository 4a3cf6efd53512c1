#!/usr/bin/env python3
"""Runs the official MCP conformance suite against a client and judges the outcome.

The suite alone is too kind: a client that does nothing and exits 0 passes several scenarios without one check. So each
scenario has a floor of checks that must succeed (scenarios.json: what an independent client reaches), none may fail, and
/bin/true, run first, must pass nothing at all. "counted" are the scenarios of the suite's own frozen list for a revision;
"beside" are others that have to pass, and "expected_failures" those that may not pass, each with its reason: one that
passes has to leave that list. All scenarios of a revision run side by side, which is sensitive to a loaded machine, so
what failed is tried again alone. Those under "alone" measure clocks: they run alone at once, to the same floors.

usage: gate.py --node NODE --guard REQUIRED.CJS --suite INDEX.JS --client COMMAND --folder FOLDER [--revision REVISION]...
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

SCENARIOS = json.loads((pathlib.Path(__file__).parent / "scenarios.json").read_text())
# Tries alone, after the one side by side.
TRIES = 2
# For one scenario, and for the whole of a revision.
SCENARIO_SECONDS = 40
REVISION_SECONDS = 400


def run(options, client, arguments, folder):
    """Runs the suite; the outcome of each scenario's checks, by its name, and whether the suite is content."""
    folder.mkdir(parents=True)
    command = [options.node, "--require", options.guard, options.suite, "client", "--command", client, "--timeout", str(SCENARIO_SECONDS * 1000)]
    with open(folder / "log", "wb") as log:
        try:
            done = subprocess.run([*command, "-o", str(folder), *arguments], stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=log, timeout=REVISION_SECONDS)
            content = done.returncode == 0
        except subprocess.TimeoutExpired:
            content = False
    found = {}
    for checks in folder.rglob("checks.json"):
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", str(checks.parent.relative_to(folder)))
        found[name] = json.loads(checks.read_text())
    return found, content


def fault(checks, floor):
    """Why a scenario does not pass, or None."""
    if checks is None:
        return "was not run"
    count = collections.Counter(check["status"] for check in checks)
    if count["FAILURE"]:
        first = next(check for check in checks if check["status"] == "FAILURE")
        return f"{count['FAILURE']} checks failed, first {first['id']}: {first.get('errorMessage') or first['description']}"
    if count["SUCCESS"] < floor:
        return f"{count['SUCCESS']} checks succeeded, fewer than {floor}"
    return None


def judge(options, revision):
    """All of one revision; how many counted scenarios passed and failed."""
    counted, beside = SCENARIOS["counted"][revision], SCENARIOS["beside"][revision]
    excused = SCENARIOS["expected_failures"]
    folder = options.folder / revision
    timed = {}
    for name in SCENARIOS["alone"]:
        if name in counted:
            arguments = ["--scenario", name, "--spec-version", revision]
            timed.update(run(options, options.client, arguments, folder / f"{name}-first")[0])
    found, content = run(options, options.client, ["--requirements", revision], folder / "all")
    passed = failed = excuses = first = done = 0
    # What the suite says of its run side by side is weighed where nothing of it was judged by another run.
    again = any(name in counted and fault(found.get(name), counted[name]) for name in SCENARIOS["alone"])

    def tried_again(name, floor, why):
        nonlocal again
        for attempt in range(TRIES):
            again = True
            print(f"  again, alone: {name} ({why})", flush=True)
            alone = folder / f"{name.replace('/', '_')}-{attempt}"
            arguments = ["--scenario", name, "--spec-version", revision]
            why = fault(run(options, options.client, arguments, alone)[0].get(name), floor)
            if why is None:
                break
        return why

    for name, floor in {**counted, **beside}.items():
        if name in SCENARIOS["alone"]:
            found[name] = timed.get(name)
        why = fault(found.get(name), floor)
        if why is None:
            first += name in counted
        else:
            why = tried_again(name, floor, why)
        if why is None:
            passed += 1
            done += name in counted
        else:
            failed += 1
            print(f"FAILED {revision} {name}: {why}")
    for name in sorted(set(found) - set(counted) - set(beside)):
        if name not in excused:
            failed += 1
            print(f"FAILED {revision} {name}: nobody says what is expected of it; add it to scenarios.json")
        elif fault(found[name], 1) is None:
            failed += 1
            print(f"FAILED {revision} {name}: it passes; take it off the expected failures")
        else:
            excuses += 1
            print(f"  expected to fail: {name}: {excused[name]}")
    if not content and not again:
        failed += 1
        print(f"FAILED {revision}: the suite itself is not content, see {folder}/all/log")
    print(f"  counted {done} of {len(counted)}, {first} of them at the first try; beside them {passed - done} of {len(beside)}; "
          f"{excuses} failed as expected")
    return passed, failed


def control(options, revision):
    """A client that does nothing must pass nothing."""
    found, _ = run(options, "/bin/true", ["--requirements", revision], options.folder / f"control-{revision}")
    floors = {**SCENARIOS["counted"][revision], **SCENARIOS["beside"][revision]}
    fooled = [name for name, floor in floors.items() if fault(found.get(name), floor) is None]
    if fooled or not found:
        print(f"FAILED {revision}: a client that does nothing passes {', '.join(fooled) or 'a suite that did not run'}")
    else:
        print(f"  a client that does nothing passes 0 of {len(floors)}")
    return not fooled and bool(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", required=True)
    parser.add_argument("--guard", required=True, help="what node loads before the suite")
    parser.add_argument("--suite", required=True)
    parser.add_argument("--client", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--revision", action="append", choices=SCENARIOS["counted"])
    options = parser.parse_args()
    # The suite's servers are on this host; a proxy of the caller's is not for them.
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    total = collections.Counter()
    for revision in options.revision or SCENARIOS["counted"]:
        sound = control(options, revision)
        passed, failed = judge(options, revision)
        passed, failed = passed + sound, failed + (not sound)
        total.update(passed=passed, failed=failed)
        print(f"conformance {revision} result: {passed} passed; {failed} failed;", flush=True)
    print(f"{total['passed']} passed, {total['failed']} failed")
    sys.exit(1 if total["failed"] else 0)


main()
