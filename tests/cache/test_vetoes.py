"""Pairs that must not share an answer, and pairs that may, for each veto."""

from __future__ import annotations

import pytest

from cache.acceptance import first_veto, read
from cache.acceptance.quantities import quantities

DIFFERENT = {
    "number": [
        ("Convert 40 pounds to kilos", "Convert 40 kilos to pounds"),
        ("Convert 40 pounds to kilos", "Convert 41 pounds to kilos"),
        ("What is 15% of 80?", "What is 18% of 80?"),
        ("How long does a 5 km run take?", "How long does a 5 mile run take?"),
        ("Is $20 a good price?", "Is €20 a good price?"),
        ("Is 20 dollars a good price?", "Is 20 euros a good price?"),
        ("How many grams are in two cups?", "How many grams are in three cups?"),
        ("What is new in Python 3.10?", "What is new in Python 3.1?"),
        ("Divide 1,000 by 8", "Divide 10,000 by 8"),
        ("Does the shop open at 9am?", "Does the shop open at 9pm?"),
        ("What is 5 - 3?", "What is 3 - 5?"),
        ("Is it colder than -5 degrees?", "Is it colder than 5 degrees?"),
        ("Who played in the 2014 final?", "Who played in the 2018 final?"),
        ("How much memory does GPT-3 need?", "How much memory does GPT-4 need?"),
        ("What happened on 2024-05-01?", "What happened on 2024-05-02?"),
        ("Wait one hour", "Wait one minute"),
    ],
    "negation": [
        ("Which fruits contain sugar?", "Which fruits do not contain sugar?"),
        ("Why does my code compile?", "Why doesn't my code compile?"),
        ("Can I travel with a visa?", "Can I travel without a visa?"),
        ("Delete the file", "Don't delete the file"),
        ("Should you ever boil milk?", "Should you never boil milk?"),
        ("Why can I log in?", "Why can’t I log in?"),
    ],
    "contrast": [
        ("How do I enable two-factor login?", "How do I disable two-factor login?"),
        ("How do I turn notifications on?", "How do I turn notifications off?"),
        ("Increase the font size", "Decrease the font size"),
        ("What should I eat before a run?", "What should I eat after a run?"),
        ("Where can I buy shares?", "Where can I sell shares?"),
        ("What is the maximum speed?", "What is the minimum speed?"),
        ("Translate this into French", "Translate this into German"),
        ("Sort a list in Python", "Sort a list in JavaScript"),
        ("Is the museum open on Monday?", "Is the museum open on Tuesday?"),
        ("English to French dictionary", "French to English dictionary"),
        ("How is installing it done?", "How is uninstalling it done?"),
    ],
    "period": [
        ("What are the events this week?", "What are the events next week?"),
        ("Show the sales of last month", "Show the sales of this month"),
    ],
    "order": [
        ("Did Ana pay Bo?", "Did Bo pay Ana?"),
        ("translate nl to de", "translate de to nl"),
        ("Flights from Paris to London", "Flights from London to Paris"),
        ("Is a lion stronger than a tiger?", "Is a tiger stronger than a lion?"),
        ("Can I sue my landlord?", "Can my landlord sue me?"),
        ("Convert miles into feet", "Convert feet into miles"),
        ("Does the dog chase the cat?", "Does the cat chase the dog?"),
    ],
    "symbol": [
        ("What is C++?", "What is C#?"),
        ("Is x < y?", "Is x > y?"),
        ("What is 6 / 3?", "What is 6 * 3?"),
        ("What is 6 / 3?", "What is 6 - 3?"),
        ("What does 🍺 mean in this chat?", "What does ☕ mean in this chat?"),
        ("What does 上 mean in this sign?", "What does 下 mean in this sign?"),
    ],
}

SAME = [
    ("How do I reset my password?", "How can I reset my password?"),
    ("What is the capital of France?", "what's the capital of france"),
    ("Convert 40 pounds to kilos", "Please convert 40 lbs to kilograms"),
    ("Divide 1,000 by 8", "Divide 1000 by 8"),
    ("Is 20% enough?", "Is 20 percent enough?"),
    ("How long is a 5km run?", "How long is a 5 kilometre run?"),
    ("Name three rivers", "Name 3 rivers"),
    ("How does one cook rice?", "How do you cook rice?"),
    ("Is Paris the capital of France?", "Isn't Paris the capital of France?"),
    ("It is cold in Oslo, isn't it?", "Is it cold in Oslo?"),
    ("Tell me whether it is safe or not", "Tell me whether it is safe"),
    ("How do I start a business with no money?", "How do I start a business without money?"),
    ("In Gmail, how do I reset my password?", "How do I reset my password in Gmail?"),
    ("Which is better, tea or coffee?", "Which is better, coffee or tea?"),
    ("How do I start an online business?", "How do I start a business online?"),
    ("Pros & cons of tea", "Pros and cons of tea"),
    ("In English, which word is longest in use?", "Which word in English is longest in use?"),
]


@pytest.mark.parametrize(
    ("name", "new", "stored"), [(name, *pair) for name, pairs in DIFFERENT.items() for pair in pairs]
)
def test_different_questions_are_kept_apart_by_the_named_veto(name: str, new: str, stored: str) -> None:
    assert first_veto(read(new), read(stored)) == name
    assert first_veto(read(stored), read(new)) == name


@pytest.mark.parametrize(("new", "stored"), SAME)
def test_the_same_question_in_other_words_is_not_vetoed(new: str, stored: str) -> None:
    assert first_veto(read(new), read(stored)) is None
    assert first_veto(read(stored), read(new)) is None


@pytest.mark.parametrize("text", ["", "?", "\ud83d", "a" * 8000, "1" * 8000, "not " * 2000, "é́́́"])
def test_any_text_can_be_read_and_equals_itself(text: str) -> None:
    assert first_veto(read(text), read(text)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pay $1,250.50 now", (("1250.50", "$"),)),
        ("5kg or 5 kilos", (("5", "kg"), ("5", "kg"))),
        ("twelve men, one week", (("12", ""), ("1", "week"))),
        ("which one of these", ()),
        ("at -5 °c", (("-5", "c"),)),
        ("2020-2021", (("2020-2021", ""),)),
        ("room b12", (("b12", ""),)),
    ],
)
def test_quantities_are_numbers_with_their_units(text: str, expected: object) -> None:
    assert quantities(text) == expected
