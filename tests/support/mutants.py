"""Planted privacy bugs, and the tests that must notice each of them.

A mutant replaces one piece of text in one file of the package. `tests/test_mutants.py` plants each
in a copy and runs the named tests there. Tests that pass with a bug in place protect nobody:
a new kind of mistake gets a mutant here, and a test that fails on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent


@dataclass(frozen=True)
class Mutant:
    """One planted bug. `old` occurs once in `file`, which is below src/scumble."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]  # ids, below the folder tests
    why: str


def _block(text: str, indent: int) -> str:
    """Return lines of source, indented as in their file."""
    lines = dedent(text).strip("\n").splitlines()
    return "\n".join(" " * indent + line if line else line for line in lines)


MUTANTS = (
    # --- noise and random bits --------------------------------------------------------------------
    Mutant(
        "noise of releases a tenth too small",
        "private/meter/noise.py",
        "part += discrete_laplace(self.source, law.scale, len(part))",
        "part += discrete_laplace(self.source, law.scale * 9 / 10, len(part))",
        ("families/axes/test_axis_releases.py::test_the_noise_has_the_variance_that_is_said",),
        "The loss is ε / 0.9, and the release states ε.",
    ),
    Mutant(
        "noise of a database a tenth too small",
        "private/database/session.py",
        "noise = discrete_laplace(self._noise, self.terms.noise * times, size)",
        "noise = discrete_laplace(self._noise, self.terms.noise * times * 9 / 10, size)",
        ("private/database/test_database_privacy.py::test_noise_has_the_law_that_the_proof_needs",),
        "All answers together lose ε / 0.9.",
    ),
    Mutant(
        "the sampler draws from a narrower law",
        "private/sampling/noise.py",
        "ratios = powers(exponential(1 / scale, precision), BASE, precision)",
        "ratios = powers(exponential(Fraction(10, 9) / scale, precision), BASE, precision)",
        (
            (
                "private/sampling/test_noise_discrete.py"
                "::test_digits_of_a_geometric_number_are_independent_with_these_laws"
            ),
            (
                "private/sampling/test_noise_discrete.py"
                "::test_thresholds_of_the_laplace_law_are_the_floors_of_its_cumulative_shares"
            ),
        ),
        "Every mechanism with Laplace noise loses more than it states.",
    ),
    Mutant(
        "Gaussian noise with half of the variance",
        "private/meter/noise.py",
        "part += discrete_gaussian(self.source, law.parameter, len(part))",
        "part += discrete_gaussian(self.source, law.parameter / 2, len(part))",
        ("families/axes/test_axis_releases.py::test_the_noise_has_the_variance_that_is_said",),
        "The release has twice the ρ that it states.",
    ),
    Mutant(
        "occupied cells have less noise",
        "private/meter/noise.py",
        "noisy: Integers = counts + discrete_laplace(self.source, law.scale, len(counts))",
        "noisy: Integers = counts + discrete_laplace(self.source, law.scale / 2, len(counts))",
        ("families/histogram/test_sparse.py::test_noise_is_as_wide_as_it_says",),
        "Sparse counts of people lose twice the stated ε.",
    ),
    Mutant(
        "one keystream for all purposes of a unit",
        "private/sampling/source.py",
        "for part in (self._id, unit, purpose)]",
        "for part in (self._id, unit)]",
        ("private/sampling/test_keystream.py::test_keys_of_units",),
        "Two steps draw the same bits: the noise of one can be taken off the other.",
    ),
    Mutant(
        "one keystream for all units of work",
        "private/sampling/source.py",
        "for part in (self._id, unit, purpose)]",
        "for part in (self._id, purpose)]",
        ("private/sampling/test_keystream.py::test_keys_of_units",),
        "Rows of different pieces of a table are perturbed with the same bits.",
    ),
    Mutant(
        "a forked child draws what its parent draws",
        "private/sampling/source.py",
        "elif not self.seeded:\n            self.release = ReleaseKey()",
        "elif self.seeded:\n            self.release = ReleaseKey()",
        ("private/sampling/test_keystream.py::test_a_forked_child_does_not_repeat_its_parent",),
        "Two releases with the same noise differ by the data alone.",
    ),
    Mutant(
        "spare noise is handed out twice",
        "private/database/session.py",
        "return [self._spare.pop()]",
        "return [self._spare[-1]]",
        ("private/database/test_database_privacy.py::test_single_counts_have_noise_of_their_own",),
        "The difference of two answers has no noise at all.",
    ),
    Mutant(
        "a pool reads the same random words again",
        "families/aroma/publish/views.py",
        "            source.fill(drawn)\n",
        "            if not part.start:\n                source.fill(drawn)\n",
        ("families/aroma/test_noise_pools.py::test_words_are_drawn_anew_for_every_part",),
        "Rows that are far apart show the same other values.",
    ),
    Mutant(
        "randomised response keeps values too often",
        "families/randomised_response/publish/uniform.py",
        "return (gamma - 1) / (values - 1 + gamma)",
        "return gamma / (values - 1 + gamma)",
        (
            "families/randomised_response/test_uniform.py::test_the_channel_has_exactly_the_promised_ratio",
        ),
        "The ratio of the channel is above the promised γ.",
    ),
    Mutant(
        "each of several attributes uses the whole ε",
        "families/randomised_response/publish/uniform.py",
        'gamma = gamma_for_epsilon(self._numbers["epsilon"], parts)',
        'gamma = gamma_for_epsilon(self._numbers["epsilon"])',
        (
            (
                "families/randomised_response/test_uniform.py"
                "::test_several_attributes_keep_the_promise_together"
            ),
        ),
        "A row with two sensitive values loses 2 ε.",
    ),
    Mutant(
        "the channel draws replacements too seldom",
        "private/sampling/randomized_response.py",
        "cuts = Cuts.rational([keep + code * share for code in range(size)])",
        "cuts = Cuts.rational([keep + share / 2 + code * share * (2 * size - 1) / (2 * size)"
        " for code in range(size)])",
        ("private/sampling/test_noise_channel.py::test_all_prefixes_have_exactly_their_share",),
        "Values are kept more often than the published probability says.",
    ),
    # --- sensitivity and contribution ------------------------------------------------------------
    Mutant(
        "the bound on the rows of a person is ignored",
        "private/tables/persons/limit.py",
        "keep = (before[codes] + _ranks(codes) < self.most) & ~unidentified",
        "keep = ~unidentified",
        ("private/tables/test_rows.py::test_limited_keeps_the_first_rows_of_each_person",),
        "A person with many rows loses many times the stated ε.",
    ),
    Mutant(
        "one row of a person too many",
        "private/tables/persons/limit.py",
        "keep = (before[codes] + _ranks(codes) < self.most) & ~unidentified",
        "keep = (before[codes] + _ranks(codes) <= self.most) & ~unidentified",
        ("private/tables/test_rows.py::test_limited_keeps_the_first_rows_of_each_person",),
        "A person with two rows loses 2 ε where one row was promised.",
    ),
    Mutant(
        "the sensitivity does not grow with the rows of a person",
        "model/privacy/accounting.py",
        'return self.rows * max(self.amount, 1) * (2 if self.neighbours == "replace" else 1)',
        'return max(self.amount, 1) * (2 if self.neighbours == "replace" else 1)',
        ("families/histogram/test_histogram.py::test_sensitivity_by_brute_force",),
        "A person with five rows loses 5 ε.",
    ),
    Mutant(
        "replacing a person counts as one change",
        "model/privacy/accounting.py",
        'return self.rows * max(self.amount, 1) * (2 if self.neighbours == "replace" else 1)',
        "return self.rows * max(self.amount, 1)",
        ("families/histogram/test_histogram.py::test_sensitivity_by_brute_force",),
        "Two counts change, by one each: the loss is 2 ε.",
    ),
    Mutant(
        "columns of opposite signs are taken for alike",
        "model/privacy/accounting.py",
        "return square * (2 if nonnegative_gram else 4)",
        "return square * 2",
        ("model/privacy/test_budget_account.py::test_squared_sensitivity_by_brute_force",),
        "The squared distance of neighbouring tables may be 4.",
    ),
    Mutant(
        "tables of sides cost what tables of counts do",
        "model/designs/residuals.py",
        "found = max(2 * found if unit.sided else found,",
        "found = max(found,",
        ("model/privacy/test_amounts.py::test_sides_of_tables",),
        "A row that moves from one side to the other changes the sum of each.",
    ),
    Mutant(
        "wavelets claim no negative inner products",
        "model/designs/wavelets.py",
        "row[apart] = -1\n",
        "row[apart] = 0\n",
        ("families/axes/test_axes.py::test_inner_products_of_columns_by_brute_force",),
        "Gaussian noise is calibrated to half of the squared sensitivity.",
    ),
    Mutant(
        "levels of a hierarchy share ε as if there were one less",
        "families/axes/publish.py",
        "(Fraction(1, levels),) * levels)",
        "(Fraction(1, max(levels - 1, 1)),) * levels)",
        (
            (
                "families/axes/test_axis_releases.py"
                "::test_no_neighbours_with_a_taxonomy_are_further_apart"
            ),
        ),
        "A row is in a block of every level: the levels' losses add up to more than ε.",
    ),
    Mutant(
        "the noise of sums along axes ignores the norm of a row",
        "families/axes/publish.py",
        "self.unit.sensitivity * total / (self.cell_promise.epsilon * share)",
        "self.unit.sensitivity / (self.cell_promise.epsilon * share)",
        (
            (
                "families/axes/test_axis_releases.py"
                "::test_no_neighbours_with_a_taxonomy_are_further_apart"
            ),
        ),
        "A row that counts several times in a group has too little noise.",
    ),
    Mutant(
        "sums have the noise of the largest amount, not of the largest absolute one",
        "private/database/questions/amounts.py",
        "return int(np.abs(self.values).max(initial=0))",
        "return int(self.values.max(initial=0))",
        (
            (
                "private/database/test_database_privacy.py"
                "::test_sums_have_the_noise_of_the_largest_absolute_amount"
            ),
        ),
        "A debt of 100 changes a sum by 100, whatever the largest income is.",
    ),
    Mutant(
        "a list of k candidates has the noise of one",
        "private/sampling/top.py",
        "scale = Fraction(k * sensitivity * (1 if monotone else 2)) / scale",
        "scale = Fraction(sensitivity * (1 if monotone else 2)) / scale",
        ("private/sampling/test_top.py::test_one_shot_has_this_law",),
        "The list loses k ε.",
    ),
    # --- thresholds and (ε, δ) --------------------------------------------------------------------
    Mutant(
        "a key is named one below its threshold",
        "families/keys/publish.py",
        "shown = noisy >= self.threshold",
        "shown = noisy >= self.threshold - 1",
        ("families/keys/test_keys.py::test_keys_of_one_person_are_named_as_rarely_as_promised",),
        "A key of one person alone is named with a probability above δ.",
    ),
    Mutant(
        "optimal noise names a key at its largest value but one",
        "families/keys/publish.py",
        "shown = noisy > law.reach",
        "shown = noisy >= law.reach",
        ("families/keys/test_keys.py::test_keys_of_one_person_are_named_as_rarely_as_promised",),
        "A key of one person alone is named with a probability above δ.",
    ),
    Mutant(
        "the threshold of keys is computed one too low",
        "families/keys/publish.py",
        "chance = Fraction(exponential((threshold - 1) / scale, precision)[1], one + ratio[0])",
        "chance = Fraction(exponential(threshold / scale, precision)[1], one + ratio[0])",
        (
            "families/keys/test_key_sampling.py::test_laplace_threshold_is_the_least_that_is_private",
        ),
        "A key of one person alone is named with a probability above δ.",
    ),
    Mutant(
        "the threshold of sums forgets that a person has several keys",
        "families/keys/publish.py",
        "noise.quantile(allowed / t)",
        "noise.quantile(allowed)",
        (
            (
                "families/keys/test_key_sampling.py"
                "::test_the_threshold_of_sums_against_a_sum_of_probabilities"
            ),
            "families/keys/test_key_sampling.py::test_rounds_spend_no_more_than_they_may",
        ),
        "One of several keys of a person passes with a probability above δ.",
    ),
    Mutant(
        "occupied cells pass one below the threshold of empty ones",
        "families/histogram/publish.py",
        "np.flatnonzero(counts >= theta), counts, FilterRule",
        "np.flatnonzero(counts >= theta - 1), counts, FilterRule",
        ("families/histogram/test_sparse_law.py::test_the_law_of_a_small_table",),
        "A published count of θ - 1 tells for certain that somebody is in the cell.",
    ),
    Mutant(
        "δ of a release is not added up",
        "model/privacy/accounting.py",
        "spent = sum((each.delta for _, each in self.charges), cost.delta)",
        "spent = cost.delta",
        ("private/ledger/test_delta_losses.py::test_an_account_adds_up_both",),
        "A release spends the promised δ several times.",
    ),
    Mutant(
        "the ledger lets losses with a δ use all of it",
        "private/ledger/terms.py",
        "return (self.delta or Fraction(0)) / 2",
        "return self.delta or Fraction(0)",
        ("private/ledger/test_delta_losses.py::test_half_of_delta_is_for_such_losses",),
        "With Gaussian noise beside them, the probability of failure is 3/2 of δ.",
    ),
    Mutant(
        "δ of discrete Gaussian noise is understated",
        "model/privacy/accounting.py",
        "far = math.exp(epsilon) * _above(law, middle + Fraction(sensitivity, 2))",
        "far = math.exp(epsilon) * _above(law, middle)",
        ("private/test_primitives.py::test_the_delta_of_discrete_noise_is_its_definition",),
        "Too little noise seems to be enough.",
    ),
    Mutant(
        "a sample strengthens a promise by 5 % too much",
        "model/privacy/sampling.py",
        "gamma = 1 + self.rate * (gamma_above_epsilon(epsilon) - 1)",
        "gamma = 1 + self.rate * Fraction(95, 100) * (gamma_above_epsilon(epsilon) - 1)",
        ("private/test_sample.py::test_adding_a_person_costs_what_is_promised",),
        "The stated ε of a sampled release is too small.",
    ),
    # --- accounts and ledgers ---------------------------------------------------------------------
    Mutant(
        "an account pays while anything is left",
        "model/privacy/accounting.py",
        "if amount > self._left:",
        "if self._left <= 0:",
        (
            "model/privacy/test_budget_account.py::test_concentrated_losses_add_up_with_pure_ones_at_half_their_square",
        ),
        "The last measurement of a release may cost any ε.",
    ),
    Mutant(
        "releases compose by their largest loss",
        "private/ledger/terms.py",
        "return sum((loss.epsilon for loss in self.losses), Fraction(0))",
        "return max((loss.epsilon for loss in self.losses), default=Fraction(0))",
        ("private/ledger/test_total.py::test_pure_losses_add_exactly",),
        "A hundred releases of ε = 1 pass a limit of 1.",
    ),
    Mutant(
        "the ρ of a group grows with its size, not with the square",
        "private/ledger/terms.py",
        "PrivacyLoss(count * loss.epsilon, count**2 * loss.rho, delta, loss.normal)",
        "PrivacyLoss(count * loss.epsilon, count * loss.rho, delta, loss.normal)",
        ("private/ledger/test_total.py::test_steps_to_a_neighbour_further_off",),
        "Gaussian noise for people with several rows is charged too little.",
    ),
    Mutant(
        "replacing a person is charged as one step",
        "private/ledger/cost.py",
        '("replace", "add_remove"): 2,',
        '("replace", "add_remove"): 1,',
        ("private/ledger/test_bill.py::test_summaries_by_the_relation",),
        "A person who changes is one who leaves and one who comes.",
    ),
    Mutant(
        "the ledger does not record a charge",
        "private/ledger/ledger.py",
        "return turn.append(CHARGED, bill.to_dict()).number",
        'return turn.append(MADE, {"charge": 0}).number if False else turn.last.number',
        ("private/ledger/test_ledger.py::test_two_releases_of_one_table_add_up",),
        "Any number of releases passes the limit.",
    ),
    Mutant(
        "the charge of a release that failed is returned",
        "private/ledger/ledger.py",
        "harmless: type[Exception] | tuple[type[Exception], ...] = SourceError",
        "harmless: type[Exception] | tuple[type[Exception], ...] = Exception",
        ("private/ledger/test_ledger.py::test_any_other_failure_stays_charged",),
        "Noise that was drawn may have been seen.",
    ),
    Mutant(
        "a seeded release is counted as private",
        "private/ledger/cost.py",
        'return "It is made with a fixed seed, and is not private." if seeded else ""',
        'return ""',
        ("private/ledger/test_bill.py::test_what_no_number_covers_is_not_counted",),
        "Who knows the seed can take the noise off.",
    ),
    Mutant(
        "a seeded database does not say that it is not private",
        "private/database/terms.py",
        "warning = (SEEDED,) if self.seeded else ()",
        "warning: tuple[str, ...] = ()",
        ("private/database/test_database.py::test_the_sentence_of_the_promise",),
        "Who knows the seed can take the noise off.",
    ),
    Mutant(
        "a private database is opened with a seed",
        "private/database/database.py",
        'if journal.promise["terms"]["seeded"] != (seed is not None):',
        'if journal.promise["terms"]["seeded"] and seed is None:',
        (
            "private/database/test_database_errors.py::test_a_seed_is_for_databases_that_were_made_with_one",
        ),
        "The promise says nothing of a seed, and the noise can be repeated.",
    ),
    Mutant(
        "a seeded release is saved",
        "public/manifest.py",
        "if seeded and not insecure:",
        "if seeded and insecure:",
        ("private/test_conformance.py::test_a_fixed_seed_is_said_and_not_saved",),
        "A release that is not private leaves the owner's machine.",
    ),
    # --- the statistical database -----------------------------------------------------------------
    Mutant(
        "a tracker admits one answer too many",
        "private/database/trackers.py",
        "most = self.limit - units\n        return self._largest <= most",
        "most = self.limit - units + 1\n        return self._largest <= most",
        ("private/database/test_trackers.py::test_no_point_gets_more_than_the_limit",),
        "The person at the most popular point loses more than ε.",
    ),
    Mutant(
        "a histogram tracker admits one answer too many",
        "private/database/trackers.py",
        "most = self.limit - units\n        if self._is_below(box, most):",
        "most = self.limit - units + 1\n        if self._is_below(box, most):",
        ("private/database/test_trackers.py::test_no_point_gets_more_than_the_limit",),
        "The person at the most popular point loses more than ε.",
    ),
    Mutant(
        "the limit of answers forgets that a row moves from one point to another",
        "private/database/terms.py",
        "return floor(epsilon * self.noise / 2)",
        "return floor(epsilon * self.noise)",
        ("private/database/test_database_privacy.py::test_what_is_used_up_is_the_promise",),
        "All answers together lose 2 ε.",
    ),
    Mutant(
        "the replay of answers ignores the kind of question",
        "private/database/state.py",
        "return self._places.get((kind, box.tobytes()))",
        "return next((n for (_, b), n in self._places.items() if b == box.tobytes()), None)",
        ("private/database/test_database.py::test_sums_and_averages",),
        "A count is given out as a sum, whose noise is stated to be larger than it is.",
    ),
    Mutant(
        "the quota of an analyst is ignored",
        "private/database/plan.py",
        "known = (self._batch.tracker, self._batch.quota(self.options.analyst))",
        "known = (self._batch.tracker,)",
        ("private/database/test_database_crowd.py::test_quotas_below_the_promise",),
        "An analyst learns more than the owner allowed.",
    ),
    Mutant(
        "a plan is not looked at again in its turn",
        "private/database/session.py",
        "if plan is None or not plan.snapshot.is_current(self._state):",
        "if plan is None:",
        ("private/database/test_planning.py::test_a_plan_is_looked_at_again",),
        "What others were told since it was planned is not counted against ε.",
    ),
    Mutant(
        "planned answers leave the room as it was",
        "private/database/plan.py",
        "others = len(self._answers) - (number in self._answers)",
        "others = 0",
        ("private/database/test_select.py::test_admits_is_exact",),
        "The numbers of one SELECT together cover a point more often than the limit.",
    ),
    Mutant(
        "an idempotency key serves any analyst",
        "private/database/session.py",
        "if not same or entry.analyst != request.options.analyst:",
        "if not same:",
        ("private/database/test_database_crowd.py::test_a_key_is_for_one_question_of_one_analyst",),
        "An analyst gets the answers of another, past the quota.",
    ),
    Mutant(
        "an idempotency key serves any question",
        "private/database/session.py",
        "same = first.kind == ANSWER and question_of(payload) == request.question",
        "same = first.kind == ANSWER",
        ("private/database/test_database_crowd.py::test_a_key_is_for_one_question_of_one_analyst",),
        "The answer to another question is given out.",
    ),
    Mutant(
        "the number of rows is public although rows were dropped",
        "private/database/database.py",
        'sized=outside != "drop",',
        "sized=True,",
        (
            (
                "private/database/test_database.py"
                "::test_the_number_of_rows_is_not_public_where_rows_are_dropped"
            ),
        ),
        "The exact number of rows that are left tells about the person who was dropped.",
    ),
    Mutant(
        "a database is opened over another table",
        "private/database/tables.py",
        'journal.expect({**promise, "data": counter.fingerprint(secret)})',
        "counter.fingerprint(secret)",
        (
            (
                "private/database/test_database_errors.py"
                "::test_another_table_schema_or_promise_is_refused"
            ),
        ),
        "Answers about two tables share one ε, and their difference tells who changed.",
    ),
    Mutant(
        "batches are not compared with what was appended",
        "private/database/tables.py",
        "if not matches_rows(entry, table, secret):",
        "if entry is None:",
        ("private/database/test_append.py::test_a_database_is_opened_with_all_its_batches",),
        "A person may be moved from a used-up batch to a new one.",
    ),
    Mutant(
        "a signed sum is charged once where rows are replaced",
        "private/database/live/terms.py",
        'twice = 2 if signed and self.unit.neighbours == "replace" else 1',
        "twice = 1 if signed else 1",
        ("private/database/test_live_sums.py::test_squared_shifts_stay_within_the_promise",),
        "A row that moves a sum from one end of its limits to the other loses more than promised.",
    ),
    Mutant(
        "a live database measures the rows that a person has too many",
        "private/database/live/database.py",
        "rows = rows.limited(unit.column, unit.rows)",
        "rows.limited(unit.column, unit.rows)",
        ("private/database/test_live_persons.py::test_the_same_rows_count_everywhere",),
        "Somebody with more rows than most_rows is promised less than is lost.",
    ),
    Mutant(
        "a table may change between two passes",
        "private/engines/fingerprints.py",
        "if any(known.setdefault(name, code) != code for name, code in found.items()):",
        "if not [known.setdefault(name, code) for name, code in found.items()]:",
        ("private/engines/test_engines.py::test_a_file_that_changes_between_the_passes",),
        "A release is made of two tables, at the price of one.",
    ),
    # --- the journal ------------------------------------------------------------------------------
    Mutant(
        "the journal does not wait for the disk",
        "private/journal/sqlite_store.py",
        'self.run("PRAGMA synchronous = FULL")',
        'self.run("PRAGMA synchronous = OFF")',
        ("private/journal/test_journal_folder.py::test_every_commit_waits_for_the_disk",),
        "After a power failure answers that were given are not charged.",
    ),
    Mutant(
        "an answer is acknowledged before the commit",
        "private/journal/sqlite_store.py",
        '        self.run("COMMIT")\n        step("committed")\n',
        '        step("committed")\n        self.run("COMMIT")\n',
        ("private/journal/test_journal_crash.py::test_a_commit_is_what_counts",),
        "After a crash in between an answer that was seen is not charged.",
    ),
    Mutant(
        "answers are returned although the commit failed",
        "private/journal/group_commit.py",
        "ticket.outcomes = [error] * len(ticket.requests)",
        "ticket.outcomes = list(results)",
        ("private/journal/test_journal_crowd.py::test_a_ledger_that_fails_is_told_to_all",),
        "Answers that are not charged can be asked for again, with new noise.",
    ),
    Mutant(
        "entries need not continue the chain",
        "private/journal/chain.py",
        "if entry.previous != before.hash:",
        "if entry.previous is None:",
        (
            (
                "private/journal/test_journal_verify.py"
                "::test_a_changed_entry_with_a_new_hash_breaks_the_next"
            ),
        ),
        "A charge can be lowered without a trace.",
    ),
    Mutant(
        "the content of entries is not compared with their hashes",
        "private/journal/entries.py",
        "return digest(*content) == self.hash",
        "return bool(digest(*content))",
        ("private/journal/test_journal_verify.py::test_a_changed_entry_is_named",),
        "A charge can be lowered without a trace.",
    ),
    Mutant(
        "all entries have the same salt",
        "private/journal/entries.py",
        "return canonical({**payload, _SALT: secrets.token_hex(16)})",
        "return canonical({**payload, _SALT: 32 * '0'})",
        (
            (
                "private/journal/test_journal_verify.py"
                "::test_hashes_tell_nothing_to_somebody_who_tries_out_contents"
            ),
        ),
        "An auditor who sees hashes only tries out questions and answers until one fits.",
    ),
    Mutant(
        "the charge of a database that exists is returned",
        "private/ledger/ledger.py",
        "if not isinstance(error, ChangedError) and nothing_made():",
        "if not isinstance(error, ChangedError):",
        (
            (
                "private/ledger/test_ledger.py"
                "::test_a_database_stays_paid_for_whose_folder_the_disk_does_not_confirm"
            ),
        ),
        "The database answers with its ε, and the ledger spends the same ε on something else.",
    ),
    Mutant(
        "a lost connection counts as no database",
        "private/ledger/ledger.py",
        "    except LedgerError:\n        return False",
        "    except LedgerError:\n        return True",
        ("private/ledger/test_ledger.py::test_what_nobody_can_look_at_stays_paid_for",),
        "The database may be there, and its ε is spent twice.",
    ),
    Mutant(
        "a journal that was cut off is used",
        "private/journal/journal.py",
        "if last < head.number:",
        "if last < since.number:",
        ("private/journal/test_journal_verify.py::test_a_truncated_ledger_is_found_and_not_used",),
        "Charges that were deleted are spent again.",
    ),
    # --- groups and tuples ------------------------------------------------------------------------
    Mutant(
        "a value may be too frequent for l",
        "families/anatomy/publish.py",
        "return int(counts.max(initial=0)) * least <= int(counts.sum())",
        "return int(counts.max(initial=0)) * (least - 1) <= int(counts.sum())",
        ("families/anatomy/test_anatomy.py::test_eligible_up_to_exactly_one_in_l",),
        "Some group lacks l different values, and a guess is right more often than 1/l.",
    ),
    Mutant(
        "groups of k - 1 rows are published",
        "families/generalise/publish/criteria.py",
        "passes: Flags = sizes >= self.k",
        "passes: Flags = sizes >= self.k - 1",
        (
            (
                "families/generalise/test_generalise.py"
                "::test_every_group_of_a_local_recoding_satisfies_the_criteria"
            ),
            "families/generalise/test_generalise.py::test_the_search_finds_what_brute_force_finds",
        ),
        "A person hides among k - 1.",
    ),
    Mutant(
        "AlphaBeta counts the rows that are seen only",
        "families/alphabeta/publish/guarantee.py",
        "return max(self.most, 1 / self.least)",
        "return self.most",
        ("families/alphabeta/test_alphabeta.py::test_losses_are_exact",),
        "That a row is missing tells more than the stated ε.",
    ),
    Mutant(
        "a further view of a table that changed",
        "families/alphabeta/publish/views.py",
        "if not hmac.compare_digest(self._tuples, _fingerprint(self._key, true)):",
        "if not self._tuples:",
        ("private/test_owner.py::TestRepublish::test_another_table_is_refused",),
        "A row that changes between two views has larger odds than the release promises.",
    ),
    Mutant(
        "two second views of one first view",
        "families/alphabeta/publish/views.py",
        "if ViewRecord(self._path)._views[views] != made:",
        "if not made:",
        ("private/test_owner.py::TestRepublish::test_one_of_two_that_draw_at_the_same_time",),
        "They are one view more than the promise covers.",
    ),
    Mutant(
        "the fingerprint of a table without its key",
        "families/alphabeta/publish/views.py",
        'return hmac.new(key, true.astype("<u8").tobytes(), hashlib.sha256).hexdigest()',
        'return hashlib.sha256(true.astype("<u8").tobytes()).hexdigest()',
        ("private/test_owner.py::TestRepublish::test_the_fingerprint_cannot_be_tried_out",),
        "Whoever knows all rows but one tries out the last.",
    ),
    Mutant(
        "1 and 1.0 of SQLite are two people",
        "private/tables/relations.py",
        """value, text = f"coalesce(CAST({number} AS TEXT), '')", True""",
        """value, text = f"coalesce(CAST({column} AS TEXT), '')", True""",
        ("private/tables/test_relations.py::test_equal_numbers_of_sqlite_are_one_person",),
        "A person whose number was written in two ways has twice as many rows as the bound.",
    ),
    Mutant(
        "AlphaBeta replaces a row at the price of one",
        "families/alphabeta/publish/guarantee.py",
        "return self.most / self.least",
        "return self.most",
        ("families/alphabeta/test_alphabeta.py::test_losses_are_exact",),
        "A row that leaves and a row that comes are both seen.",
    ),
    Mutant(
        "Frapp states a ratio that is too small",
        "families/alphabeta/publish/frapp.py",
        "return 1 + keep * schema.size() / (1 - keep)",
        "return 1 + keep * schema.size()",
        ("families/alphabeta/test_frapp.py::test_the_channel_has_exactly_the_promised_ratio",),
        "The stated ε is below that of the channel.",
    ),
    Mutant(
        "Aroma states a δ that is too small",
        "families/aroma/design.py",
        "excess = np.maximum(0.0, gain[:, None] - ratio * loss[None, :])",
        "excess = np.maximum(0.0, gain[:, None] - 1.05 * ratio * loss[None, :])",
        ("families/aroma/test_aroma_exact.py::test_profile",),
        "Multisets tell values apart with a larger probability than stated.",
    ),
    Mutant(
        "Aroma states the δ of one attribute for a row of several",
        "families/aroma/design.py",
        "sums = [one.plus(other) for one in sums for other in _find_losses(law)]",
        "sums = [other for one in sums for other in _find_losses(law)]",
        ("families/aroma/test_aroma_each.py::test_the_profile_of_a_row",),
        "Multisets of several attributes tell rows apart with a larger probability than stated.",
    ),
    Mutant(
        "Aroma rounds the losses of a row down",
        "families/aroma/design.py",
        "np.add.at(masses, below - first + 1, above)",
        "np.add.at(masses, below - first, above)",
        ("families/aroma/test_aroma_each.py::test_the_profile_of_a_row",),
        "The stated δ is below that of the multisets.",
    ),
    Mutant(
        "the promise of a row of several multisets is opened if it holds for the first",
        "families/aroma/design.py",
        "return profile_together(laws[:_MOST_TOGETHER], epsilons)",
        "return profile_together(laws[:1], epsilons)",
        ("public/test_forged_promises.py::test_each_number_of_multisets_is_computed",),
        "A forged manifest promises less than its multisets tell.",
    ),
    Mutant(
        "the exposure of multisets is believed on opening",
        "families/aroma/design.py",
        "return 1 / law.values if work > _MOST_WORK else pool_exposure(law) - _MACHINES",
        "return 1 / law.values",
        ("public/test_forged_promises.py::test_each_number_of_multisets_is_computed",),
        "A forged manifest promises that values are guessed more rarely than they are.",
    ),
    # --- releases that are opened -----------------------------------------------------------------
    Mutant(
        "a promise that nothing computes is believed",
        "public/archive/promises.py",
        "if number is None and promise.statement not in evidence.left_to_audit:",
        "if False:",
        ("public/test_forged_promises.py::test_a_forged_promise_or_noise_is_refused",),
        "A number in a promise of another kind of release is shown without a check.",
    ),
    Mutant(
        "a release is opened without its main promise",
        "public/archive/promises.py",
        "if SAMPLED in manifest.report or not whole & evidence.main_promises:",
        "if SAMPLED in manifest.report:",
        ("public/test_forged_promises.py::test_a_forged_promise_or_noise_is_refused",),
        "Whoever forges a manifest drops the promise that shows how much less noise there is.",
    ),
    Mutant(
        "the rate of a sample is believed",
        "model/privacy/sampling.py",
        "if sizes[0] is not None and sizes[1] != int(rate * sizes[0]):",
        "if False:",
        ("public/test_forged_promises.py::test_a_forged_sample_is_refused",),
        "A smaller rate makes a small ε of any method, and answers do not show it.",
    ),
    Mutant(
        "the promise of a sample is not compared with that of its method",
        "public/archive/promises.py",
        "and all(_is_close(wanted[name], stated[name]) for name in wanted)",
        "and True",
        (
            (
                "public/test_forged_promises.py"
                "::test_the_promise_of_a_sample_is_that_of_the_method_strengthened"
            ),
        ),
        "A release of a sample states a smaller ε than it has.",
    ),
    # --- messages, the sandbox and the server -----------------------------------------------------
    Mutant(
        "an error shows the private value",
        "private/tables/rows.py",
        'if self.reveal else "the value"',
        'if not self.reveal else "the value"',
        ("private/tables/test_rows.py::test_error_names_column_row_and_domain",),
        "Messages are shown to people who may not see the table.",
    ),
    Mutant(
        "a failed request tells its exception",
        "server/problems.py",
        "return Problem(500, BUG)",
        "return Problem(500, str(error))",
        ("server/test_api.py::test_a_failure_tells_nothing_but_its_number",),
        "The message of an exception may quote a private value.",
    ),
    Mutant(
        "questions can read files",
        "public/sandbox.py",
        "SET enable_external_access = false; SET lock_configuration = true",
        "SET lock_configuration = true",
        ("public/test_sandbox.py::test_nothing_else_can_be_reached",),
        "The private table is a file.",
    ),
    Mutant(
        "any secret will do behind a known prefix",
        "server/tokens.py",
        "return token if same and token is not None else None",
        "return token",
        (
            "server/test_tokens_and_config.py::test_another_secret_behind_a_known_prefix_is_no_token",
        ),
        "Prefixes are shown in lists and logs.",
    ),
    Mutant(
        "revoked tokens go on",
        "server/tokens.py",
        "return token if token is not None and token.usable() else None",
        "return token",
        ("server/test_api.py::test_revoked_and_expired_tokens_are_refused",),
        "Somebody who left still asks.",
    ),
    Mutant(
        "the server ignores roles",
        "server/http/app.py",
        "if token.role not in route.roles:",
        "if not token.role:",
        ("server/test_api.py::test_every_route_serves_its_roles_only",),
        "Analysts read the questions of others and give themselves quotas.",
    ),
    Mutant(
        "a token opens every data set",
        "server/tokens.py",
        "return self.datasets is None or dataset in self.datasets",
        "return True",
        ("server/test_api.py::test_a_token_for_one_data_set_sees_no_other",),
        "An analyst asks about people whose owner did not agree.",
    ),
    Mutant(
        "the proof of a password is not compared",
        "server/postgres/scram.py",
        "if not same or not self._known:",
        "if not self._known:",
        ("server/test_postgres.py::test_the_server_checks_the_proof_of_a_client",),
        "A user name is enough to ask in the name of an analyst.",
    ),
    Mutant(
        "a text names a file of questions",
        "private/summaries/workload_matrix.py",
        """    if isinstance(given, Path):
        found = _split(_read(given))""",
        """    if isinstance(given, (str, Path)):
        found = _split(_read(Path(given)))""",
        (("families/workload/test_workload.py::test_a_file_of_questions_is_an_ordinary_one"),),
        "Over HTTP an owner opens any file of the server.",
    ),
    Mutant(
        "a token for one data set reads the owner's whole ledger",
        "server/http/owner_api.py",
        "if call.user.datasets is not None:",
        "if False:",
        ("server/test_publishing.py::test_a_table_is_sent_proposed_published_and_asked",),
        "An auditor of one data set reads what was published of others.",
    ),
    Mutant(
        "a login is not bound to the certificate",
        "server/postgres/scram.py",
        """data = self._bound_to if mechanism == BOUND and self._bound_to is not None else b\"\"""",
        """data = b\"\"""",
        ("server/test_postgres.py::test_a_login_is_bound_to_the_certificate",),
        "Somebody with another certificate passes a login on.",
    ),
)
