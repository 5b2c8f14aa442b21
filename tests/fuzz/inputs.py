"""What else comes from outside: files of policies and mixtures, logs, options, and certificates from samples.

Whatever is in a file of a policy or a mixture, it is refused by name, or is one: probabilities >= 0 that sum to 1. A
command that is handed it, or odd options, ends within ten seconds with a documented exit code and no traceback. A log
is refused by name, or its model has the shares that were counted. Of a certificate from samples, changed and sealed
again, both checkers say the same; and an accepted one claims no more than the one that it was made from. They also say
the same of those that were made up, with numbers from all over the doubles and in other spellings.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import inbounds as ib
from inbounds.proofs.files import save_certificate, sealed, what_bets_are_about
from inbounds.proofs.verify import Unreadable, verify, verify_bets

from .bets import at_random, extreme, spelled, verdicts, written
from .certificates import damaged
from .files import called, models, of_npz, of_toml

COUNT = 16_000
KINDS = (
    *("policy.json", "policy.csv", "policy.npz", "mixture.npz", "mixture.json"),
    *("safe", "log", "options", "bets", "made_up", "verify", "mixed"),
)
ODD = [None, "", "x", -1, 0, 1e400, float("nan"), True, [], {}, "nan", 10**400, (1, 2), 0.5, b"x", np.float32(0.5)]
TEXTS = [
    "0.5",
    "1",
    "0",
    "limit=0.6",
    "0=0.9",
    "",
    "x",
    "nan",
    "1e400",
    "-1",
    "0",
    "inf",
    "limit",
    "limit=",
    "=1",
    "limit=1=2",
    "0=0.5",
    "limit=nan",
    "é=1",
    "--",
]


def run(count, seed, seconds):
    rng, started = random.Random(seed), time.monotonic()
    tried, failures = Counter(), []
    with tempfile.TemporaryDirectory() as name, np.errstate(all="ignore"):
        made = Made(Path(name), seed)
        for number in range(count):
            if time.monotonic() - started > seconds:
                break
            kind, began, made.came = KINDS[number % len(KINDS)], time.monotonic(), ""
            try:
                wrong = getattr(made, kind.partition(".")[0])(kind, rng)
            except Exception as error:
                wrong = f"{type(error).__name__}: {str(error)[:200]}"
            tried[f"{kind} {made.came}".strip()] += 1
            if time.monotonic() - began > 10.0:
                wrong = wrong or "more than 10 s"
            if wrong:
                failures.append(f"{wrong} ({kind}, seed {seed}, case {number})")
                print(f"  inputs: {failures[-1]}", flush=True)
    stopped = "" if tried.total() == count else f"the time was over after {tried.total():,} cases"
    return {"tried": dict(tried), "failures": failures, "stopped": stopped}


class Made:
    """Files to damage, and what is done with each kind."""

    def __init__(self, folder, seed):
        self.folder, self.models, self.files = folder, models()[:2], {}
        for number, model in enumerate(self.models):
            model.save(folder / f"model{number}.npz")
            policy = ib.slater(model).policy  # one that is safe
            for suffix in (".json", ".csv", ".npz"):
                policy.save(folder / f"{number}{suffix}")
                self.files.setdefault(f"policy{suffix}", []).append((folder / f"{number}{suffix}").read_bytes())
            for file in ("mixture.npz", "mixture.json"):
                ib.Mixture([0.25, 0.75], [policy, ib.Policy.uniform(model)]).save(folder / file)
                self.files.setdefault(file, []).append((folder / file).read_bytes())
        mixture = ib.Mixture([0.25, 0.75], [ib.slater(self.models[0]).policy, ib.Policy.uniform(self.models[0])])
        save_certificate(ib.certify(mixture, self.models[0]), folder / "mixed.json")
        self.mixture_claim = json.loads((folder / "mixed.json").read_bytes())
        easy = self.models[0].tightened(-0.5)
        self.claims = []
        for mixture in (False, True):
            run = ib.learn_certified(easy.simulator(), samples=1_500, confidence=0.9, seed=seed, mixture=mixture)
            if run.policy is not None:
                save_certificate(run.certificate, folder / "bets.json")
                self.claims.append(json.loads((folder / "bets.json").read_bytes()))
        for suffix in (".json", ".csv", ".npz"):  # kernels are on disk before a clock runs
            self._learned(folder / f"1{suffix}")

    def _damaged(self, kind, rng):
        content = rng.choice(self.files[kind])
        if kind.endswith(".npz"):
            return of_npz(content, rng)
        if kind.endswith(".json") or rng.random() < 0.5:
            return damaged(content, rng) if rng.random() < 0.5 else of_text(content, rng)
        return of_toml(content, rng) if b" = " in content else of_text(content, rng)

    def policy(self, kind, rng):
        path = self.folder / f"damaged.{kind.partition('.')[2]}"
        path.write_bytes(self._damaged(kind, rng))
        try:
            policy = ib.Policy.load(path)
        except ib.InvalidInput as error:
            return "" if str(path) in str(error) else f"the file is not named: {str(error)[:100]}"
        self.came = "loaded"
        return _no_policy(policy)

    def mixture(self, kind, rng):
        path = self.folder / f"damaged.{kind.partition('.')[2]}"
        path.write_bytes(self._damaged(kind, rng))
        try:
            mixture = ib.Mixture.load(path)
        except ib.InvalidInput as error:
            return "" if str(path) in str(error) else f"the file is not named: {str(error)[:100]}"
        self.came, weights = "loaded", mixture.weights
        if not np.all(weights >= 0.0) or not abs(weights.sum() - 1.0) <= 1e-12:
            return f"weights {weights}"
        return next(filter(None, map(_no_policy, mixture.policies)), "")

    def safe(self, kind, rng):
        kind = rng.choice([name for name in self.files if name.startswith("policy")])
        path = self.folder / f"safe.{kind.partition('.')[2]}"
        path.write_bytes(self._damaged(kind, rng))
        code, wrong = self._learned(path)
        self.came = f"exit {code}"
        return wrong

    def _learned(self, safe):
        command = ["learn", str(self.folder / "model1.npz"), "--algorithm", "optpess-lp", "--samples", "6"]
        return called([*command, "--safe", str(safe)])

    def options(self, kind, rng):
        model = str(self.folder / f"model{rng.randrange(2)}.npz")
        options = [
            "--bound",
            "--tolerance",
            "--method",
            "--coins",
            "--time-limit",
            "--set",
            "--policy",
            "--certificate",
        ]
        command = rng.choice(["solve", "frontier", "plan", "learn", "report"])
        if command == "learn":
            options = ["--algorithm", "--samples", "--seed", "--slater", "--kappa", "--confidence", "--bound", "--safe"]
        if command == "frontier":
            options = ["--constraint", "--points", "--time-limit", "--bound", "--output"]
        chosen = [part for name in rng.sample(options, 2) for part in (name, rng.choice(TEXTS))]
        if command == "learn":
            chosen = ["--samples", "50", "--algorithm", "crpo", *chosen]
        if command == "report":
            chosen = ["--points", "0", "--output", str(self.folder / "page.html"), "--bound", rng.choice(TEXTS)]
        with contextlib.chdir(self.folder):
            code, wrong = called([command, model, *chosen])
        self.came = f"exit {code}"
        return "" if code == 5 and "--time-limit" in chosen else wrong and f"{wrong}: {command} {chosen}"

    def log(self, kind, rng):
        rows, counts = [], Counter()
        for _ in range(rng.randrange(1, 30)):
            state, action, after = rng.randrange(3), rng.choice("ab"), rng.randrange(3)
            rows.append([state, action, after, rng.random(), [rng.random()]])
            counts[state, action, after] += 1
        spoilt, first = rng.random() < 0.7, rows[0][0]
        if spoilt:
            row = rng.choice(rows)
            where = rng.randrange(6)
            if where == 5:
                del row[rng.randrange(len(row)) :]
            elif where == 4 and rng.random() < 0.5:
                row[4] = [rng.choice(ODD)]
            else:
                row[where] = rng.choice(ODD)
        limit = [ib.Constraint(at_most=1.0, name="limit")]
        try:
            found = ib.from_counts(
                rows, start=first, constraints=limit, discount=0.9, unseen="stay", smoothing=rng.choice([0.0, 0.5])
            )
        except ib.InvalidInput:
            return "" if spoilt else "a good log is refused"
        if spoilt or found.smoothing:
            return "" if ib.evaluate(found.model, ib.Policy.uniform(found.model)).occupancy.sum() > 0.99 else "no model"
        pairs = found.model.pairs
        for pair in range(pairs.n_pairs):
            state, action = pairs.state_label(int(pairs.states[pair])), pairs.action_label(pair)
            seen = sum(number for (s, a, _), number in counts.items() if (s, a) == (state, action))
            for after in range(pairs.n_states):
                share = (
                    counts[state, action, pairs.state_label(after)] / seen
                    if seen
                    else float(after == pairs.states[pair])
                )
                if abs(found.model.transition[[pair]].toarray()[0, after] - share) > 1e-12:
                    return f"the share of {state}, {action}, {after}"
        return ""

    def verify(self, kind, rng):
        """Bets through the command line, which says what the checker says."""
        return self._verified(rng.choice(self.claims), [], rng)

    def mixed(self, kind, rng):
        """The certificate of a mixture on a known model, likewise; changed or not, it is true, or not accepted."""
        return self._verified(self.mixture_claim, [str(self.folder / "model0.npz")], rng)

    def _verified(self, genuine, model, rng):
        claim, path = copy.deepcopy(genuine), self.folder / "claim.json"
        changed = rng.random() < 0.9
        if changed:
            _changed(claim, rng)
        content = sealed(claim)
        path.write_bytes(damaged(content, rng) if changed and rng.random() < 0.1 else content)
        code, wrong = called(["verify", *model, str(path), *(["--json"] if rng.random() < 0.3 else [])])
        self.came = f"exit {code}"
        try:
            accepted = (verify(*model, str(path)) if model else verify_bets(str(path)))[0]
        except Unreadable:
            accepted = None
        if wrong or code != {True: 0, False: 1, None: 2}[accepted]:
            return wrong or f"exit {code}, and the checker says {accepted}"
        return "" if changed or accepted else "a genuine certificate is rejected"

    def bets(self, kind, rng):
        if not self.claims:
            return "nothing was certified"
        genuine = rng.choice(self.claims)
        claim = copy.deepcopy(genuine)
        for _ in range(rng.choice([1, 1, 2])):
            _changed(claim, rng)
        path, changed = self.folder / "bets.json", _text(claim) != _text(genuine)
        if about_too := rng.random() < 0.5:  # then the bets decide
            with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError):
                claim["bets"]["about"] = what_bets_are_about(claim)
        content = sealed(claim)
        path.write_bytes(damaged(content, rng) if rng.random() < 0.1 else content)
        opinions = verdicts(path)
        if opinions[0] != opinions[1]:
            return f"the checkers disagree: {opinions}"
        self.came = opinions[0]
        if opinions[0] == "accepted":
            if changed and not about_too:
                return "a change that was sealed again is accepted"
            try:
                for key in ("margins_lower", "reward_lower"):
                    numbers, others = _doubles(claim[key]), _doubles(genuine[key])
                    # Bets decide, and they are the user's to report: with the same bets no bound may be higher.
                    one, other = ({**document["bets"], "about": None} for document in (claim, genuine))
                    same = one == other and claim["confidence"] >= genuine["confidence"]
                    if same and any(x > y + 1e-6 for x, y in zip(numbers, others, strict=True)):
                        return f"{key} of {numbers} is accepted, {others} was certified"
            except (KeyError, TypeError, ValueError) as error:
                return f"accepted, and unreadable ({error!r})"
        return ""

    def made_up(self, kind, rng):
        claim, path = at_random(rng), self.folder / "made_up.json"
        path.write_bytes(written(claim, spelled(claim["confidence"], rng) if rng.random() < 0.3 else None))
        self.came, other = verdicts(path)
        if self.came != other:
            return f"the checkers disagree: {self.came}, {other}"
        reversed_range = any(
            float.fromhex(first) > float.fromhex(last) for first, last in claim["bets"]["signal_ranges"]
        )
        return "a reversed range is accepted" if self.came == "accepted" and reversed_range else ""


def _text(claim):
    """What it says, in which 1, 1.0 and true differ; without the seal, which is made anew."""
    return json.dumps({key: value for key, value in claim.items() if key != "seal"}, sort_keys=True)


def _doubles(entry):
    return [float.fromhex(text) for text in (entry if isinstance(entry, list) else [entry])]


def _changed(claim, rng):
    """One entry of a document, at a random place, made another."""
    here = claim
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = here[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.9:
            here = inner
            continue
        break
    way = rng.randrange(8)
    if way == 0:
        del here[key]
    elif way == 1 and isinstance(here, list):
        here.insert(key, copy.deepcopy(inner))
    elif isinstance(inner, str) and "0x" in inner:
        number = float.fromhex(inner)
        near = [number * 2, -number, number + 0.01, number - 0.01, 0.0, np.nextafter(number, 9)]
        here[key] = rng.choice([*near, extreme(rng)])
        here[key] = float(here[key]).hex()
    elif isinstance(inner, int) and not isinstance(inner, bool):
        here[key] = rng.choice([inner + 1, inner - 1, -inner, 0, 2 * inner, 2**60, 1.5, True])
    else:
        here[key] = rng.choice([None, "", "x", [], {}, 0, -1, 0.5, 1e300, "0x1p+0", True])


def _no_policy(policy):
    """What is wrong with a policy that was loaded; empty if nothing is."""
    sums = policy.pairs.sum_by_state(policy.probabilities)
    if not np.all(policy.probabilities >= 0.0) or not np.all(abs(sums - 1.0) <= 1e-12):
        return f"probabilities that sum to {sums}"
    for state in policy:
        policy.act(state, np.random.default_rng(0), None if policy.horizon is None else 0)
    return ""


def of_text(content, rng):
    """Text with cells, keys or lines exchanged for others."""
    text = content.decode()
    for _ in range(rng.choice([1, 1, 2, 4])):
        lines, way = text.split("\n"), rng.randrange(6)
        where = rng.randrange(len(lines))
        if way == 0:
            del lines[where]
        elif way == 1:
            lines.insert(rng.randrange(len(lines)), lines[where])
        elif way == 2:
            lines[where] = lines[where][: rng.randrange(len(lines[where]) + 1)]
        elif way == 3:
            cells = lines[where].split(",")
            cells[rng.randrange(len(cells))] = rng.choice(
                ["", "nan", "-1", "1e400", '"', "x", "9" * 5_000, "[" * 5_000, "0"]
            )
            lines[where] = ",".join(cells)
        elif way == 4:
            lines[where] = lines[where].replace(
                rng.choice(["0", "1", '"', "{", "state", "choose"]), rng.choice(["", "1", "é"])
            )
        else:
            lines.insert(where, rng.choice(["", "{}", ",,,", "\0", "null", '"x": 1,']))
        text = "\n".join(lines)
    return text.encode()
