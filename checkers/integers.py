"""Check a certificate of inbounds with whole numbers alone: a second opinion, written from the files' description.

    python integers.py [model.npz] certificate.json      exit code 0: accepted, 1: rejected, 2: a file cannot be read

What is checked, and why it proves what it says, is in docs/certificates.md; how the model file is laid out is in
docs/files.md. One file, Python's standard library, nothing of inbounds, no floating point and no rationals: made to be
read by those who do not want to trust.

Every finite double is a whole number of units of 2^-1074. So it becomes a whole number here and stays one. Products are
whole numbers of units of 2^-2148, and so on. Probabilities are divided by their sums, which are close to 1 and hence
odd numbers times a power of two 2^k, k <= 1074. Dividing by such a sum is multiplying by 2^(1074 - k), which keeps
whole numbers whole, and leaving the odd number under the fraction. A fraction is a pair of whole numbers.
"""

import binascii
import contextlib
import hashlib
import json
import math
import os
import re
import stat
import struct
import sys
from array import array

BITS = 1074  # a unit is 2^-1074
ONE = 1 << BITS
LONGEST_HORIZON = 100_000
WIDEST = 1 << 15

WHOLE = {"<i8": "q", "<i4": "i", "|i1": "b"}  # types, and what Python's struct and array call them
DOUBLE = {"<f8": "Q"}  # its 64 bits
MEMBERS = {
    "header": {"|u1": "B"},
    "offsets": WHOLE,
    "actions": WHOLE,
    "indptr": WHOLE,
    "indices": WHOLE,
    "probabilities": DOUBLE,
    "reward": DOUBLE,
    "signals": DOUBLE,
    "bounds": DOUBLE,
    "senses": WHOLE,
    "initial": DOUBLE,
}


class Rejected(Exception):
    pass


class Unreadable(Exception):
    pass


def require(condition, reason):
    if not condition:
        raise Rejected(reason)


# ---------------------------------------------------------------------------------------------------------------- files


def content_of(path):
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Unreadable(f"{path} is not a file")
        with open(path, "rb") as stream:
            return stream.read()
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from None


class Decimal(str):
    """A number of a JSON file with a point or an exponent, as it is written."""


def no_constant(name):
    raise ValueError(f"{name} is not JSON")


def json_of(content, constant=None):
    """JSON in ASCII, in which no object has a key twice and no value has 40 others around it."""

    def unique(pairs):
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("an object has a key twice")
        return dict(pairs)

    try:
        value = json.loads(
            content.decode("ascii"), object_pairs_hook=unique, parse_float=Decimal, parse_constant=constant
        )
    except RecursionError:
        raise ValueError("it nests too deep") from None
    layer = containers([value])
    for _ in range(39):
        layer = [part for whole in layer for part in containers(whole)]
    if any(layer):  # one with 39 others around it is not empty
        raise ValueError("it nests too deep")
    return value


def containers(whole):
    """The lists and objects in a list or an object. It may hold millions of numbers: one look at all their types."""
    parts = whole.values() if isinstance(whole, dict) else whole
    kinds = set(map(type, parts))
    return [part for part in parts if isinstance(part, (list, dict))] if list in kinds or dict in kinds else []


def is_whole(value):
    return type(value) is int


def read_model(content):
    """The members of a model file, (shape, numbers) by name. Every byte of the file is accounted for."""
    members, entries, position = {}, b"", 0
    for name, types in MEMBERS.items():
        file_name = f"{name}.npy".encode()
        start = position + 30 + len(file_name) + 20
        require(len(content) >= start, f"the model file ends before its member {name!r}")
        size = struct.unpack_from("<Q", content, start - 16)[0]
        require(size <= len(content) - start, f"member {name!r} is larger than the file")
        member = content[start : start + size]
        common = struct.pack("<HHHHHIII", 45, 0, 0, 0, 33, binascii.crc32(member), 0xFFFFFFFF, 0xFFFFFFFF)
        lengths = struct.pack("<HH", len(file_name), 20)
        header = b"PK\3\4" + common + lengths + file_name + struct.pack("<HHQQ", 1, 16, size, size)
        require(content[position:start] == header, f"member {name!r} is not where it must be, or is damaged")
        members[name] = read_array(name, types, member)
        entries += b"PK\1\2" + struct.pack("<H", 813) + common
        entries += struct.pack("<HHHHHII", len(file_name), 28, 0, 0, 0, 27525120, 0xFFFFFFFF)
        entries += file_name + struct.pack("<HHQQQ", 1, 24, size, size, position)
        position = start + size
    end = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 11, 11, len(entries), position)
    end += b"PK\6\7" + struct.pack("<IQI", 0, position + len(entries), 1)
    end += b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 11, 11, len(entries), 0xFFFFFFFF, 0)
    require(content[position:] == entries + end, "the directory of the model file is not that of its members")
    return members


def read_array(name, types, member):
    found = re.match(
        rb"\x93NUMPY\x01\x00..\{'descr': '([<|][a-z][0-9])', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \} *\n",
        member[:256],
        re.DOTALL,
    )
    require(found, f"member {name!r} does not begin as an array does")
    kind, written = found[1].decode(), found[2].decode()
    require(kind in types, f"member {name!r} is of the type {kind}")
    require(re.fullmatch(r"\d{1,18},|\d{1,18}(, \d{1,18})+", written), f"the shape of {name!r} is not one")
    shape = [int(length) for length in written.rstrip(",").split(", ")]
    described = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({written}), }}"
    described += " " * (-(10 + len(described) + 1) % 64) + "\n"
    start = 10 + len(described)
    expected = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(described)) + described.encode()
    require(member[:start] == expected, f"the array header of {name!r} is not as it must be")
    require(written == str(tuple(shape))[1:-1], f"the shape of {name!r} is not written as Python does")
    letter, size = types[kind], struct.calcsize("<" + types[kind])
    for length in shape:
        size *= length
    require(size == len(member) - start, f"member {name!r} is not as large as its shape")
    numbers = array(letter, member[start:])
    if sys.byteorder == "big":
        numbers.byteswap()
    if types is DOUBLE:
        require(all(bits >> 52 & 0x7FF != 0x7FF for bits in numbers), f"{name!r} has a number that is not finite")
    return shape, numbers


def units(bits):
    """A double, given as its 64 bits, in units of 2^-1074."""
    exponent, fraction = bits >> 52 & 0x7FF, bits & 0xFFFFFFFFFFFFF
    size = fraction if exponent == 0 else (1 << 52 | fraction) << (exponent - 1)
    return -size if bits >> 63 else size


HEXADECIMAL = re.compile(r"(-?)0x(?:([01])\.([0-9a-f]{13})p([+-])(0|[1-9][0-9]{0,3})|0\.0p\+0)")


def bits_of(text, what):
    """The 64 bits of a double in hexadecimal, as float.hex in Python writes it."""
    found = HEXADECIMAL.fullmatch(text) if isinstance(text, str) else None
    require(found, f"{what} is not a double in hexadecimal")
    sign = 1 << 63 if found[1] else 0
    if found[2] is None:
        return sign
    fraction, exponent = int(found[3], 16), int(found[4] + found[5])
    if found[2] == "1":
        require(-1022 <= exponent <= 1023, f"{what} is not a double")
        require(exponent or found[4] == "+", f"{what} is not written as a double is")
        return sign | (exponent + 1023) << 52 | fraction
    require(exponent == -1022 and fraction, f"{what} is not written as a double is")
    return sign | fraction


def number(text, what):
    return units(bits_of(text, what))


def numbers(texts, length, what):
    require(isinstance(texts, list) and len(texts) == length, f"{what} must have {length} entries")
    return [number(text, what) for text in texts]


# ------------------------------------------------------------------------------------------------------------ fractions


def divisor(total):
    """A sum of probabilities, which is close to 1, as an odd number and the power of two that goes with it."""
    twos = (total & -total).bit_length() - 1
    return total >> twos, BITS - twos


def added(fractions):
    """The sum of fractions (numerator, denominator), two by two: numbers get long late."""
    fractions = list(fractions)
    while len(fractions) > 1:
        pairs = zip(fractions[::2], fractions[1::2], strict=False)
        summed = [(a + c, b) if b == d else (a * d + c * b, b * d) for (a, b), (c, d) in pairs]
        fractions = summed + fractions[len(summed) * 2 :]
    return fractions[0] if fractions else (0, 1)


def smaller(one, other):
    return one[0] * other[1] < other[0] * one[1]


def require_distribution(probabilities, what):
    """That they are >= 0 and sum to 1, up to 10^-9; the sum."""
    require(all(probability >= 0 for probability in probabilities), f"{what} has a probability below 0")
    total = sum(probabilities)
    require(abs(total - ONE) * 10**9 <= ONE, f"{what} does not sum to 1")
    return total


# ---------------------------------------------------------------------------------------------------------------- model


class Model:
    """A model whose every number has been looked at."""

    def __init__(self, content):
        members = read_model(content)
        shape = {name: tuple(lengths) for name, (lengths, _) in members.items()}
        entries = {name: found for name, (_, found) in members.items()}
        try:
            header = json_of(entries["header"].tobytes())
        except ValueError as error:
            raise Rejected(f"the header of the model cannot be read: {error}") from None
        require(isinstance(header, dict), "the header of the model is not an object")
        keys = {"kind", "version", "name", "criterion", "constraints", "states", "actions"}
        parts = {"state_parts", "action_parts"}  # the names of the parts of labels, where they have names
        require(header.keys() - parts == keys, "the header of the model has other keys")
        require(header["kind"] == "cmdp" and type(header["kind"]) is str, "the model is of another kind")
        require(is_whole(header["version"]) and header["version"] == 2, "the model is of another version")
        require(type(header["name"]) is str, "the name of the model is not text")

        criterion = header["criterion"]
        require(isinstance(criterion, dict) and len(criterion) == 1, "the model has not one criterion")
        self.horizon, self.own, self.start, self.up, self.down = None, 0, 1, 1, 1  # reach is up / down
        if "discount" in criterion:
            require(type(criterion["discount"]) is Decimal, "the discount is not a number with a point or an exponent")
            # The one conversion that is Python's: the double that is nearest to a decimal.
            written = float(criterion["discount"]).hex()
            self.criterion = {"discount": written}
            discount = number(written, "the discount")
            require(0 <= discount < ONE, "the discount is not in [0, 1)")
            self.own, self.up, self.down = 1, discount, ONE - discount
        elif "horizon" in criterion:
            self.criterion, self.horizon = criterion, criterion["horizon"]
            require(
                is_whole(self.horizon) and 1 <= self.horizon <= LONGEST_HORIZON, "the horizon is not a number of stages"
            )
        else:
            require(criterion.get("average") is True, "the criterion is none of the three")
            self.criterion, self.start = criterion, 0
        self.stages = self.horizon or 1

        self.n_states, self.n_pairs = len(entries["initial"]), len(entries["actions"])
        self.n_constraints, n_entries = len(entries["bounds"]), len(entries["probabilities"])
        states, pairs, constraints, stages = self.n_states, self.n_pairs, self.n_constraints, self.stages
        by_stage = self.horizon is not None
        allowed = {
            "header": [(len(entries["header"]),)],
            "offsets": [(states + 1,)],
            "actions": [(pairs,)],
            "indptr": [(pairs + 1,)] + [(stages * pairs + 1,)] * by_stage,
            "indices": [(n_entries,)],
            "probabilities": [(n_entries,)],
            "reward": [(pairs,)] + [(stages, pairs)] * by_stage,
            "signals": [(constraints, pairs)] + [(constraints, stages, pairs)] * by_stage,
            "bounds": [(constraints,)],
            "senses": [(constraints,)],
            "initial": [(states,)],
        }
        for name, shapes in allowed.items():
            require(shape[name] in shapes, f"member {name!r} has the wrong shape")

        self.offsets, self.indptr, self.indices = (entries[name] for name in ("offsets", "indptr", "indices"))
        require(states > 0, "there is no state")
        require(self.offsets[0] == 0 and self.offsets[-1] == pairs, "offsets do not rise from 0 to the number of pairs")
        require(all(self.offsets[s] < self.offsets[s + 1] for s in range(states)), "a state has no pair")
        rows = len(self.indptr) - 1
        require(self.indptr[0] == 0 and self.indptr[-1] == n_entries, "indptr does not rise from 0 to the transitions")
        require(all(self.indptr[r] <= self.indptr[r + 1] for r in range(rows)), "indptr falls")
        require(all(0 <= state < states for state in self.indices), "a next state is none")
        require(all(action >= 0 for action in entries["actions"]), "an action number is below 0")
        self.senses = list(entries["senses"])
        require(all(sense in (1, -1) for sense in self.senses), "a sense is neither 1 nor -1")

        self.names = header["constraints"]
        require(isinstance(self.names, list) and len(self.names) == constraints, "constraints are not all named")
        require(
            all(type(name) is str and name for name in self.names), "the name of a constraint is empty, or not text"
        )
        require(len(set(self.names)) == constraints, "two constraints have the same name")
        labels = header["states"]
        require(labels is None or (isinstance(labels, list) and len(labels) == states), "states are not all labelled")
        require(header["actions"] is None or isinstance(header["actions"], list), "the labels of actions are no list")

        # Where the numbers of a stage begin: everywhere at 0, unless they depend on the stage.
        self.row_step = pairs if rows == stages * pairs else 0
        self.reward_step = pairs if len(shape["reward"]) == 2 else 0
        self.signal_step = pairs if len(shape["signals"]) == 3 else 0
        self.signal_size = stages * pairs if self.signal_step else pairs
        self.probabilities, self.reward, self.signals = (entries[k] for k in ("probabilities", "reward", "signals"))
        self.bound_bits = list(entries["bounds"])
        self.bounds = [units(bits) for bits in self.bound_bits]
        self.initial = [units(bits) for bits in entries["initial"]]
        self.initial_sum = require_distribution(self.initial, "the initial distribution")
        for row in range(rows):
            require_distribution(self.row(row)[0], f"row {row} of the transitions")

    def row(self, row):
        """The probabilities of a row of transitions, and the next states."""
        first, last = self.indptr[row], self.indptr[row + 1]
        return [units(bits) for bits in self.probabilities[first:last]], self.indices[first:last]

    def reward_at(self, stage, pair):
        return units(self.reward[stage * self.reward_step + pair])

    def signal_at(self, constraint, stage, pair):
        return units(self.signals[constraint * self.signal_size + stage * self.signal_step + pair])

    def residual(self, value, vector, stage, state, pair):
        """(value - E vector) at a pair, `value` in units of 2^-2148: (numerator, odd sum of the row).

        It comes multiplied by `down` (1 - discount, or 1), and in units of 2^-2148, like the value. All vectors are
        [stages + 1, S] under one another, with zeros at the end; without stages, both are the same one.
        """
        here = vector[stage * self.n_states + state]
        after = (stage + 1) * self.n_states if self.horizon else 0
        probabilities, states = self.row(stage * self.row_step + pair)
        flow = sum(p * (here - vector[after + s]) for p, s in zip(probabilities, states, strict=True))
        odd, twos = divisor(sum(probabilities))
        kept = self.down * (value - (here << BITS) * self.own)
        return kept * odd - self.up * (flow << twos), odd

    def from_start(self, vector):
        """start <rho, vector>: a fraction, in units of 2^-2148."""
        odd, twos = divisor(self.initial_sum)
        summed = sum(p * y for p, y in zip(self.initial, vector, strict=False))
        return (self.start * summed << twos, odd)

    def joined(self, began, by_stage):
        """start <rho, vector>, a fraction in units of 2^-2148, + the sum over stages / down, in units of 2^-3222."""
        (numerator, denominator), (top, odd) = by_stage, began
        return added([(top << BITS, odd), (numerator, denominator * self.down)])


def visits(model, policy):
    """The states that a policy can be in, a set for each stage; without a horizon one set, of all times."""

    def moved(stage, states):
        """Where it can be one step after it was in one of these states."""
        ahead = set()
        for state in states:
            for pair in range(model.offsets[state], model.offsets[state + 1]):
                if policy[stage * model.n_pairs + pair] > 0:
                    row = model.row(stage * model.row_step + pair)
                    ahead.update(to for probability, to in zip(*row, strict=True) if probability > 0)
        return ahead

    at_first = {state for state, probability in enumerate(model.initial) if probability > 0}
    if model.horizon:
        sets = [at_first]
        while len(sets) < model.stages:
            sets.append(moved(len(sets) - 1, sets[-1]))
        return sets
    known, fresh = set(), at_first
    while fresh:
        known |= fresh
        fresh = moved(0, fresh) - known
    return [known]


def lower_bound(model, policy, visited, value_at, vector, members):
    """C1: what the signal, reward or margin `value_at(stage, pair)` is worth at least, in the two parts of `joined`.

    The policy is one of so many `members` of a mixture, over which the widths of the sums add up. Where they get too
    wide, the least of each stage is rounded down.
    """
    vector = vector + [0] * model.n_states
    least_of_stages, widths = [], 0
    for stage in range(model.stages):
        least, widest = None, 0
        for state in visited[stage]:
            pairs = range(model.offsets[state], model.offsets[state + 1])
            taken = {pair: policy[stage * model.n_pairs + pair] for pair in pairs}
            policy_odd, twos = divisor(sum(taken.values()))
            by_sum = {}
            for pair, probability in taken.items():
                if probability > 0:
                    value = value_at(stage, pair) << BITS
                    numerator, odd = model.residual(value, vector, stage, state, pair)
                    by_sum[odd] = by_sum.get(odd, 0) + probability * numerator
            width = sum(odd.bit_length() for odd in by_sum) + policy_odd.bit_length()
            require(width <= WIDEST, "the sums of the rows of a state are too wide")
            numerator, denominator = added((numerator, odd) for odd, numerator in by_sum.items())
            mean = (numerator << twos, denominator * policy_odd)
            if least is None or smaller(mean, least):
                least = mean
            widest = max(widest, width)
        least_of_stages.append(least)
        widths += widest
    if widths * members > WIDEST:
        least_of_stages = [(numerator // denominator, 1) for numerator, denominator in least_of_stages]
    return model.from_start(vector), added(least_of_stages)


def upper_bound(model, prices, vector, with_reward):
    """C2 and C3: what any policy gets of the reward, if it counts, plus the priced signals; in units of 2^-3222.

    Where the sum over stages gets too wide, the most of each is rounded up.
    """

    def of_signals(stage, pair):
        signals = (model.signal_at(constraint, stage, pair) for constraint in range(len(prices)))
        return sum(price * sense * signal for price, sense, signal in zip(prices, model.senses, signals, strict=True))

    by_pair = None if model.signal_step else [of_signals(0, pair) for pair in range(model.n_pairs)]
    vector = vector + [0] * model.n_states
    most_of_stages, widths = [], 0
    for stage in range(model.stages):
        most, widest = None, 0
        for state in range(model.n_states):
            for pair in range(model.offsets[state], model.offsets[state + 1]):
                value = of_signals(stage, pair) if by_pair is None else by_pair[pair]
                value += model.reward_at(stage, pair) << BITS if with_reward else 0
                found = model.residual(value, vector, stage, state, pair)
                if most is None or smaller(most, found):
                    most = found
                widest = max(widest, found[1].bit_length())
        most_of_stages.append((most[0] << BITS, most[1]))
        widths += widest
    if widths > WIDEST:
        most_of_stages = [(-(-numerator // denominator), 1) for numerator, denominator in most_of_stages]
    return model.joined(model.from_start(vector), added(most_of_stages))


# ---------------------------------------------------------------------------------------------------------- certificate

COMMON = {"kind", "version", "model", "constraints", "statement", "arithmetic", "criterion", "seal"}
OF_BOTH = {"margins_lower", "margin_vectors", "reward_lower", "reward_upper", "prices", "value_function"}
OF_BOTH |= {"methods", "confidence", "samples"}
OF_BETS = {"margins_lower", "reward_lower", "methods", "confidence", "samples"}
OF_BETS |= COMMON - {"model", "criterion"}
KEYS = {
    "policy": COMMON | OF_BOTH | {"policy", "reward_vector"},
    "mixture": COMMON | OF_BOTH | {"weights", "policies", "reward_vectors"},
    "infeasible": COMMON | {"margin_upper", "prices", "value_function"},
}


def check(*paths):
    """The statement that was proved, in words; raises Rejected or Unreadable. A model's file comes first, if any."""
    content = content_of(paths[-1])
    model_content = content_of(paths[0]) if len(paths) == 2 else None
    if model_content is not None and model_content[:4] != b"PK\3\4":
        raise Unreadable(f"{paths[0]} is not an .npz file")
    try:
        certificate = json_of(content, no_constant)
    except ValueError as error:
        raise Unreadable(f"{paths[-1]} is not a certificate: {error}") from None
    if type(certificate) is not dict or certificate.get("kind") != "inbounds certificate":
        raise Unreadable(f"{paths[-1]} is not a certificate")
    if not is_whole(certificate.get("version")) or certificate["version"] != 3:
        raise Unreadable(f"{paths[-1]} is a certificate of another version")

    seal = hashlib.sha256(content[:-68]).hexdigest()
    require(content[-68:] == seal.encode() + b'"\n}\n', "the seal is not that of the file")
    statement = certificate.get("statement")
    require(type(statement) is str and statement in KEYS, "nothing is stated that could be checked")
    keys = KEYS[statement]
    if statement != "infeasible" and certificate.get("arithmetic") == "confidence" and "bets" in certificate:
        keys = keys | {"bets"}
    require(certificate.keys() == keys, "the certificate has other keys")
    require(certificate["seal"] == seal, "the seal is not the last entry")
    if model_content is None:
        if certificate["arithmetic"] != "confidence":
            raise Unreadable(f"{paths[-1]}: it is about a model: give that first")
        require("bets" in certificate, "it holds no bets")
        return check_bets(certificate)
    if certificate["arithmetic"] == "confidence":
        raise Unreadable(f"{paths[-1]}: it rests on samples: check its bets, without a model")
    require(certificate["arithmetic"] in ("exact", "rounding-bounded"), "the certificate holds no proof")
    digest = hashlib.sha256(model_content).hexdigest()
    require(
        certificate["model"] == digest,
        "the certificate is about a model file of other bytes; if it is the same model, let inbounds write it anew",
    )

    model = Model(model_content)
    require(same_criterion(certificate["criterion"], model.criterion), "the criterion is not that of the model")
    constraints = certificate["constraints"]
    require(
        isinstance(constraints, list) and len(constraints) == model.n_constraints, "constraints are not the model's"
    )
    for position, constraint in enumerate(constraints):
        require(
            isinstance(constraint, dict)
            and constraint.keys() == {"name", "bound", "sense"}
            and type(constraint["name"]) is str
            and constraint["name"] == model.names[position]
            and bits_of(constraint["bound"], "a bound") == model.bound_bits[position]
            and is_whole(constraint["sense"])
            and constraint["sense"] == model.senses[position],
            "a constraint is not that of the model",
        )
    if statement == "infeasible":
        return check_infeasible(model, certificate)
    return check_values(model, certificate)


def same_criterion(one, other):
    """Whether two criteria are equal, also in their types: True is not 1, and 12.0 is not 12."""
    return (
        isinstance(one, dict)
        and one == other
        and [type(value) for value in one.values()] == [type(value) for value in other.values()]
    )


class Member:
    """One policy of a mixture: how much it weighs, what it does, and the texts of its vectors."""

    def __init__(self, model, weight, policy, margin_vectors, reward_vector):
        self.weight = weight
        self.policy = numbers(policy, model.stages * model.n_pairs, "a policy")
        for stage in range(model.stages):
            for state in range(model.n_states):
                first, last = (stage * model.n_pairs + model.offsets[s] for s in (state, state + 1))
                require_distribution(self.policy[first:last], f"a policy in state {state}")
        self.visited = visits(model, self.policy)
        right = isinstance(margin_vectors, list) and len(margin_vectors) == model.n_constraints
        require(right, "there must be a vector for each margin")
        size = model.stages * model.n_states
        self.margin_vectors = [numbers(vector, size, "a margin vector") for vector in margin_vectors]
        self.reward_vector = reward_vector


def members_of(model, certificate):
    """The policies whose values, weighted, are claimed: of a policy, itself."""
    if certificate["statement"] == "policy":
        return [Member(model, ONE, *(certificate[key] for key in ("policy", "margin_vectors", "reward_vector")))]
    columns = [certificate[key] for key in ("policies", "margin_vectors", "reward_vectors")]
    require(all(isinstance(column, list) for column in columns), "the policies of a mixture must be lists")
    count = len(columns[0])
    require(count > 0 and all(len(column) == count for column in columns), "a policy of the mixture lacks its vectors")
    weights = numbers(certificate["weights"], count, "weights")
    require_distribution(weights, "the weights")
    return [Member(model, *member) for member in zip(weights, *columns, strict=True)]


def mixed_bound(model, members, value_at, vectors):
    """The weighted mean of what the vectors prove of each member; in units of 2^-3222."""
    began, by_stage = [], []
    for member, vector in zip(members, vectors, strict=True):
        (top, odd), (numerator, denominator) = lower_bound(
            model, member.policy, member.visited, value_at, vector, len(members)
        )
        began.append(member.weight * top)
        by_stage.append((member.weight * numerator, denominator))
    numerator, denominator = model.joined((sum(began), odd), added(by_stage))
    return numerator, denominator * sum(member.weight for member in members)


def check_values(model, certificate):
    stages, states = model.stages, model.n_states
    members = members_of(model, certificate)
    methods = certificate["methods"]
    require(isinstance(methods, list) and len(methods) == model.n_constraints, "there must be a method for each margin")
    require(all(type(method) is str for method in methods), "a method is not text")
    require(type(certificate["confidence"]) in (int, Decimal), "the confidence is not a number")
    require(is_whole(certificate["samples"]), "samples is not a whole number")
    claims = numbers(certificate["margins_lower"], model.n_constraints, "margins_lower")
    require(all(claim >= 0 for claim in claims), "a margin is not claimed to be >= 0")
    for k, (claim, sense, bound) in enumerate(zip(claims, model.senses, model.bounds, strict=True)):

        def signed_signal(stage, pair, k=k, sense=sense):
            return sense * model.signal_at(k, stage, pair)

        proved = mixed_bound(model, members, signed_signal, [member.margin_vectors[k] for member in members])
        require(not smaller(proved, (claim + sense * bound << 2 * BITS, 1)), f"margin {model.names[k]!r} is not proved")
    proven = [f"every margin is at least what is claimed, {len(claims)} of {len(claims)}"]
    if certificate["reward_lower"] is not None:
        claim = number(certificate["reward_lower"], "reward_lower")
        vectors = [numbers(member.reward_vector, stages * states, "a reward vector") for member in members]
        proved = mixed_bound(model, members, model.reward_at, vectors)
        require(not smaller(proved, (claim << 2 * BITS, 1)), "the reward is not proved")
        proven.append("the reward is at least what is claimed")
    if certificate["reward_upper"] is not None:
        require_upper(model, certificate, number(certificate["reward_upper"], "reward_upper"), with_reward=True)
        proven.append("no policy in bounds has more reward than is claimed")
    return [f"the {certificate['statement']} is in bounds", *proven]


# ----------------------------------------------------------------------------------------------------------------- bets
#
# Bets were placed in floating point, whose sums, products, quotients and roots are rounded to doubles. Here a number is
# a pair (m, e) of whole numbers, m times 2^e, and is rounded so by hand.


def rounded(m, e):
    """The nearest double, of two the even one: of 53 binary digits, less where they would go beyond units of 2^-1074.

    Zero is (0, 0). What rounds to 2^1024 or more is no double, and nothing is proved by it.
    """
    size = m.bit_length()
    extra = size - 53 if size + e > -1022 else -BITS - e
    if extra > 0:
        kept, half = m >> extra, 1 << (extra - 1)
        rest = m - (kept << extra)
        m, e = kept + (rest > half or (rest == half and kept & 1 == 1)), e + extra
    if not m:
        return 0, 0
    if e > 970 and m.bit_length() + e > 1024:
        raise Rejected("a number goes beyond the largest double")
    return m, e


def plus(a, b):
    (m, e), (n, f) = (a, b) if a[1] >= b[1] else (b, a)
    return rounded((m << (e - f)) + n, f)


def minus(a, b):
    return plus(a, (-b[0], b[1]))


def times(a, b):
    return rounded(a[0] * b[0], a[1] + b[1])


def divided(a, b):
    sign = -1 if (a[0] < 0) != (b[0] < 0) else 1
    m, n = abs(a[0]), abs(b[0])
    shift = max(n.bit_length() - m.bit_length() + 56, 0)
    whole, rest = divmod(m << shift, n)
    return rounded(sign * (2 * whole + (rest > 0)), a[1] - b[1] - shift - 1)  # a last digit 1 says that there is a rest


def root(a):
    m, e = a
    shift = max(112 - m.bit_length(), 0)
    shift += (e - shift) % 2
    m <<= shift
    whole = math.isqrt(m)
    return rounded(2 * whole + (whole * whole < m), (e - shift) // 2 - 1)


def below(a, b):
    (m, e), (n, f) = a, b
    return m << (e - f) < n if e >= f else m < n << (f - e)


def equal(a, b):
    return not below(a, b) and not below(b, a)


def least_of(a, b):
    return b if below(b, a) else a


def most_of(a, b):
    return b if below(a, b) else a


def integer(n):
    return rounded(n, 0)


def literal(text):
    """The double nearest to a decimal number without a sign, however it is written.

    What is halfway between two doubles has less than 800 digits, so of those after them it counts only whether one is
    not 0; and powers beyond 10^400 and 10^-400 are beyond all doubles. So a long text takes no long time.
    """
    whole, after, power = re.fullmatch(r"(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?", text).groups("")
    digits = (whole + after).lstrip("0")
    size = int(power.lstrip("+-").lstrip("0")[:20] or 0) * (-1 if power.startswith("-") else 1)
    size = min(max(size + len(digits) - len(after), -400), 400)  # the number is 0.digits times 10^size
    digits = digits[:800] + ("1" if digits[800:].strip("0") else "0")
    size -= len(digits)
    return divided((int(digits) * 10 ** max(size, 0), 0), (10 ** max(-size, 0), 0))


def hexadecimal(a):
    """A double above 0 as float.hex in Python writes it."""
    m, e = a
    exponent = max(m.bit_length() - 1 + e, -1022)
    digits = (m << 1100 + e) >> 1048 + exponent  # of 2^(exponent - 52)
    return f"0x{digits >> 52}.{digits & ((1 << 52) - 1):013x}p{exponent:+d}"


FEW, TENTH, NINE_TENTHS = literal("0.000001"), literal("0.1"), literal("0.9")
OVERSHOOT, SLOPE, BEND = literal("1.03"), literal("1.386"), literal("1.4")
CAUTION, GROWTH = literal("0.8"), literal("0.7")
LARGEST_MARGIN = plus((1, 0), literal("0.000000001"))  # over its scale: 1, but for rounding
RUINED = (1, -500)
JUST_BELOW = (-1, -BITS)  # the largest double below 0


def pair_of(text, what):
    return rounded(number(text, what), -BITS)


def pairs_of(texts, length, what):
    return [rounded(n, -BITS) for n in numbers(texts, length, what)]


class Bets:
    """The bets of one attempt; `rows` of them: of the reward, then of the margins."""

    def __init__(self, entry, rows):
        keys = {
            "together",
            "hurry",
            "planned",
            "aim",
            "budget",
            "least",
            "low",
            "capitals",
            "reference",
            "goals",
            "expected",
            "drawn",
        }
        require(isinstance(entry, dict) and entry.keys() == keys | {"bets"}, "an attempt has other keys")
        self.together, self.hurry, self.drawn = entry["together"], entry["hurry"], entry["drawn"]
        require(is_whole(self.together) and 1 <= self.together < 2**53, "together is wrong")
        require(is_whole(self.hurry) and 0 <= self.hurry <= 1, "hurry is wrong")
        require(whole_list(self.drawn) and all(x >= self.together for x in self.drawn), "drawn is wrong")
        self.aim, self.budget = entry["aim"], entry["budget"]
        require(whole_list([self.aim, self.budget]) and 0 < self.aim <= self.budget < 2**53, "aim or budget is wrong")
        require(sum(self.drawn) <= self.budget, "more was drawn than the budget")
        self.least, self.low, self.reference, self.goals = (
            pairs_of(entry[key], rows, key) for key in ("least", "low", "reference", "goals")
        )
        self.capitals = pairs_of(entry["capitals"], rows - 1, "capitals")
        self.planned = pair_of(entry["planned"], "planned")
        require(isinstance(entry["expected"], list) and len(entry["expected"]) == rows, "expected is wrong")
        self.expected = [pairs_of(row, 3, "expected") for row in entry["expected"]]
        positive = [self.planned, *self.goals, *(x for row in self.expected for x in row[1:])]
        means = (row[0] for row in self.expected)
        sizes = [*positive, *((abs(m), e) for m, e in (*self.least, *means))]
        require(not any(below((1, 100), x) for x in sizes), "a number is too large")
        require(all(x[0] >= 0 and not below((1, 0), x) for x in self.reference), "a reference is out of range")
        positive += map(minus, self.reference, self.least)
        positive += (minus((0, 0), x) for x in self.least[1:])
        require(not any(below(x, (1, -100)) for x in positive), "a number is too small, or a least is wrong")
        lists = entry["bets"]
        require(isinstance(lists, list) and len(lists) == rows, "there must be bets for each row")
        require(all(whole_list(row) and len(row) == len(self.drawn) for row in lists), "a row of bets is wrong")
        require(all(abs(x) < 2**53 for row in lists for x in row), "a bet is too large")
        self.bets = [[(x, -30) for x in row] for row in lists]
        for row, least in zip(self.bets, self.least, strict=True):
            require(not row or not below(min(row), least), "a bet is below the least")

    def seen(self, k):
        """Before each bet of row k: its number, the mean of those before, the variance with what was expected."""
        mean, squares, (_, variance, trust) = (0, 0), (0, 0), self.expected[k]
        for i, x in enumerate(self.bets[k]):
            yield i, mean, divided(plus(times(trust, variance), squares), plus(trust, integer(i)))
            change = minus(x, mean)
            mean = plus(mean, divided(change, integer(i + 1)))
            squares = plus(squares, times(change, minus(x, mean)))

    def outcome(self, k, level, discount):
        """The capital that bets against "margin k <= 0" come to, and whether it reaches 1 / level."""
        if self.low[k][0] >= 0:
            return (1, 0), True
        held, drawn, (prior, _, trust) = (1, 0), 0, self.expected[k]
        most = divided(NINE_TENTHS, minus((0, 0), self.least[k]))
        goal = plus((1, 0), FEW)
        for i, mean, variance in self.seen(k):
            if below(held, RUINED):
                break
            bold = boldness(times(held, level))
            deadline = self.aim if drawn < self.aim else self.budget
            left = times(integer(deadline - drawn), minus((1, 0), discount))
            left = most_of(divided(left, integer(self.together)), (1, 0))
            stake = divided(bold, root(times(left, variance)))
            counted = plus(trust, integer(i))
            if self.hurry == 1 and not below(counted, (10, 0)):
                average = divided(plus(times(trust, prior), times(integer(i), mean)), counted)
                lower = minus(average, root(divided(variance, counted)))
                soon = times(divided(lower, variance), divided(bold, plus(bold, CAUTION)))
                stake = most_of(stake, soon)
            held = times(held, plus((1, 0), times(least_of(stake, most), self.bets[k][i])))
            if not below(times(held, level), goal):
                return held, True
            drawn += self.drawn[i]
        return held, False

    def reject(self, k, share, claim):
        """Whether the bets against "row k <= claim" ever come to 1 / share."""
        held, goal = (1, 0), divided(plus((1, 0), FEW), share)
        most = divided(NINE_TENTHS, minus(self.reference[k], self.least[k]))
        for i, _, variance in self.seen(k):
            bets = self.planned
            if k == 0:
                bets = times(times(integer(i + 1), GROWTH), integer((i + 2).bit_length()))
            stake = root(divided(times((2, 0), self.goals[k]), times(variance, bets)))
            stake = least_of(stake, most)
            if below((1, 0), times(stake, minus(claim, self.least[k]))):
                return False
            held = times(held, plus((1, 0), times(stake, minus(self.bets[k][i], claim))))
            if not below(held, goal):
                return True
            if below(held, RUINED):
                return False
        return False


def boldness(part):
    """What to stake, times the noise to come, of a capital that is this part of its goal."""
    m, e = divided(part, OVERSHOOT)
    exponent = e + m.bit_length()
    if exponent > 0:
        return (0, 0)
    q = minus(times((2, 0), minus((1, 0), (m, -m.bit_length()))), integer(exponent))
    return times(q, root(divided(SLOPE, plus(q, BEND))))


def whole_list(values):
    return isinstance(values, list) and all(is_whole(value) for value in values)


def check_bets(certificate):
    bets, constraints = certificate["bets"], certificate["constraints"]
    statement = certificate["statement"]
    for key in KEYS[statement] - OF_BETS:
        require(certificate[key] is None, f"{key} is of a proof on a model")
    require(isinstance(constraints, list), "there are no constraints")
    for constraint in constraints:
        require(
            isinstance(constraint, dict) and constraint.keys() == {"name", "bound", "sense"}, "a constraint is wrong"
        )
        require(type(constraint["name"]) is str and is_whole(constraint["sense"]), "a constraint is wrong")
        require(abs(constraint["sense"]) == 1, "a sense is wrong")
        bits_of(constraint["bound"], "a bound")
    rows = 1 + len(constraints)
    keys = {"staked", "bankroll", "discount", "reward_range", "signal_ranges", "margin_scales", "bounds"}
    keys |= {"apart", "attempts", "about"}
    keys |= {"policy"} if statement == "policy" else {"weights", "policies"}
    require(isinstance(bets, dict) and bets.keys() == keys, "the bets have other keys")
    confidence = certificate["confidence"]
    require(type(confidence) is Decimal and confidence[0] != "-", "the confidence is not a number between 0 and 1")
    confidence = literal(confidence)
    require(confidence[0] > 0 and below(confidence, (1, 0)), "the confidence, as a double, is not between 0 and 1")
    check_whole(certificate, confidence)
    alpha, discount = minus((1, 0), confidence), pair_of(bets["discount"], "the discount")
    staked, bankroll = pair_of(bets["staked"], "staked"), pair_of(bets["bankroll"], "the bankroll")
    for part in (staked, bankroll):
        require(part[0] > 0 and not below((1, 0), part), "staked, or the bankroll, is out of range")
    require(discount[0] >= 0 and below(discount, (1, 0)), "the discount is out of range")
    policies = [bets["policy"]] if statement == "policy" else bets["policies"]
    require(isinstance(policies, list) and policies, "there is no policy")
    for policy in policies:
        require(isinstance(policy, list) and policy and isinstance(policies[0], list), "there is no policy")
        for share in pairs_of(policy, len(policies[0]), "the policy"):
            require(share[0] >= 0 and not below((1, 0), share), "the policy has no probabilities")
    if statement == "mixture":
        require_distribution(numbers(bets["weights"], len(policies), "the weights"), "the weights")
    require(isinstance(bets["attempts"], list) and bets["attempts"], "there are no bets")
    of_bounds = times(times(staked, bankroll), alpha)
    for position, entry in enumerate(bets["attempts"], 1):
        attempt, level = Bets(entry, rows), times(times(staked, bankroll), alpha)
        ends = [attempt.outcome(k, level, discount) for k in range(1, rows)]
        stated = zip(attempt.capitals, ends, strict=True)
        require(all(equal(claim, held) for claim, (held, _) in stated), "the capitals are others")
        settled = all(done for _, done in ends)
        require(settled or position < len(bets["attempts"]), "the last attempt does not settle every margin")
        least = (1, 0)
        for held, _ in ends:
            least = least_of(least, held)
        bankroll = times(bankroll, plus(minus((1, 0), staked), times(staked, least)))
        if not settled:
            of_bounds = times(of_bounds, minus((1, 0), staked))
    check_subject(certificate)
    low, span = pairs_of(bets["reward_range"], 2, "the range of the reward")
    scales = pairs_of(bets["margin_scales"], rows - 1, "the scales")
    bounds = pairs_of(bets["bounds"], rows, "the bounds")
    margins = pairs_of(certificate["margins_lower"], rows - 1, "margins_lower")
    reward = pair_of(certificate["reward_lower"], "reward_lower")
    for m, e in [span, *scales, *(bound for bound in bounds if bound[0] != 0)]:
        small, large = below((abs(m), e), (1, -500)), below((1, 500), (abs(m), e))
        require(not small and not large, "the span, a scale or a bound is too small, or too large")
    require(equal(reward, plus(low, times(span, bounds[0]))), "the bound of the reward is another")
    for margin, bound, scale in zip(margins, bounds[1:], scales, strict=True):
        require(equal(margin, times(bound, scale)), "the bound of a margin is another")
    require(all(x[0] >= 0 for x in [*bounds[1:], *scales, span]), "a margin, or a scale, is below 0")
    for k, bound in enumerate(bounds):
        given = not below(attempt.low[0] if k == 0 else (0, 0), bound)
        require(given or attempt.reject(k, share_of(of_bounds, rows, k), bound), "a bound is not proved by the bets")
    require(isinstance(certificate["methods"], list) and len(certificate["methods"]) == rows - 1, "methods are missing")
    for k, method in enumerate(certificate["methods"], 1):
        raised = bounds[k][0] == 0 and attempt.low[k][0] < 0
        wanted = "betting for all margins" if raised else "betting for all bounds"
        require(type(method) is str and method == wanted, "a method is not that of its bound")
    apart = ", those betting for all margins apart" if "betting for all margins" in certificate["methods"] else ""
    return [
        f"the {statement} is in bounds, with the stated confidence, if the bets are on walks of it",
        f"one by one, with the stated confidence each: it is in bounds; all bounds hold at once{apart}",
    ]


def check_subject(certificate):
    """That the bets are about what is stated: its ranges and its samples."""
    bets, constraints = certificate["bets"], certificate["constraints"]
    scales = pairs_of(bets["margin_scales"], len(constraints), "the scales")
    ranges = bets["signal_ranges"]
    require(isinstance(ranges, list) and len(ranges) == len(constraints), "there is not a range of each signal")
    lows = [pairs_of(entry["low"], 1 + len(constraints), "low") for entry in bets["attempts"]]
    require(all(low[0][0] == 0 for low in lows), "the least reward is not 0 in its units")
    for k, (constraint, ends, scale) in enumerate(zip(constraints, ranges, scales, strict=True), 1):
        bound, least = pair_of(constraint["bound"], "a bound"), (0, 0)
        require(scale[0] > 0, "a scale is not above 0")
        ends = pairs_of(ends, 2, "the range of a signal")
        require(not below(ends[1], ends[0]), "the range of a signal ends below where it begins")
        for end in ends:
            m, e = minus(end, bound)
            m *= constraint["sense"]
            margin = divided((m, e), scale)
            require(not below(LARGEST_MARGIN, (abs(margin[0]), margin[1])), "a scale is not that of the range")
            least = least_of(least, JUST_BELOW if m < 0 and margin[0] == 0 else margin)
        require(all(equal(low[k], least) for low in lows), "the least margin is not that of the range")
    require(whole_list([bets["apart"], certificate["samples"]]) and bets["apart"] >= 0, "the samples are wrong")
    drawn = sum(bets["attempts"][-1]["drawn"])
    require(certificate["samples"] == drawn + bets["apart"], "the samples are not those that were drawn")


def check_whole(certificate, confidence):
    """That `about` is the hash of all the rest but the seal: nothing was put in from another certificate."""
    rest = {**certificate, "bets": {**certificate["bets"]}, "confidence": hexadecimal(confidence)}
    about, _ = rest["bets"].pop("about"), rest.pop("seal")
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    require(about == hashlib.sha256(text.encode()).hexdigest(), "the bets are about something else")


def share_of(alpha, rows, k):
    """Of the error probability of all bounds, that of row k."""
    if rows == 1:
        return alpha
    if k == 0:
        return times(TENTH, alpha)
    return divided(times(minus((1, 0), TENTH), alpha), integer(rows - 1))


def check_infeasible(model, certificate):
    claim = number(certificate["margin_upper"], "margin_upper")
    require(claim < 0, "margin_upper is not below 0")
    require_upper(model, certificate, claim, with_reward=False)
    return ["no policy is in bounds"]


def require_upper(model, certificate, claim, with_reward):
    prices = numbers(certificate["prices"], model.n_constraints, "prices")
    require(all(price >= 0 for price in prices), "a price is below 0")
    vector = numbers(certificate["value_function"], model.stages * model.n_states, "the value function")
    proved = upper_bound(model, prices, vector, with_reward)
    priced = sum(price * s * bound for price, s, bound in zip(prices, model.senses, model.bounds, strict=True))
    require(not smaller(((claim << BITS) + priced << BITS, 1), proved), "the upper bound is not proved")


def main(arguments):
    """The exit code, and what is to be said."""
    if len(arguments) not in (1, 2):
        return 2, "usage: python integers.py [model.npz] certificate.json"
    try:
        return 0, "ACCEPTED: " + "\n  ".join(check(*arguments))
    except Rejected as reason:
        return 1, f"REJECTED: {reason}"
    except Unreadable as reason:
        return 2, f"UNREADABLE: {reason}"
    except MemoryError:
        return 2, "UNREADABLE: not enough memory"


if __name__ == "__main__":
    code, words = main(sys.argv[1:])
    with contextlib.suppress(OSError, ValueError):  # a full disk, or nobody who reads: the exit code says it
        print(words.encode("utf-8", "backslashreplace").decode(), flush=True)
    os._exit(code)  # at once: Python would try again to write, and have a code of its own where that fails
