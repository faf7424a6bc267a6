"""English questions that must not share an answer: numbers, dates, negation, languages, forms.

One pair a line. They differ in little; many have a cosine above 0.90.
"""

from __future__ import annotations

_PAIRS = {
    "number": """
What is 5²? | What is 52?
How far is a marathon in kilometers? | How far is a half marathon in kilometers?
How do I say the third law of motion? | How do I say the second law of motion?
Who came first in the race? | Who came second in the race?
Who was the first president? | Who was the third president?
Who was the 1st president of France? | Who was the 2nd president of France?
Is a 10-15% tip enough? | Is a 15-20% tip enough?
Is 20 to 30 minutes enough? | Is 20 to 40 minutes enough?
Are there hotels between 50 and 100 dollars? | Are there hotels between 100 and 150 dollars?
How do I upgrade from version 2.3 to 3.0? | How do I upgrade from version 3.0 to 2.3?
Is Node 18 still supported? | Is Node 20 still supported?
What does HTTP 404 mean? | What does HTTP 403 mean?
Is 6:30 am too early? | Is 6:30 pm too early?
What is 3 pm EST in Berlin? | What is 3 pm PST in Berlin?
What is 15:00 UTC+2 in Tokyo? | What is 15:00 UTC+3 in Tokyo?
What is half of 90? | What is a third of 90?
What is a quarter of 90? | What is a third of 90?
Does the double dose help? | Does the triple dose help?
How do I make twice as much? | How do I make three times as much?
How many calories are in a dozen eggs? | How many calories are in two dozen eggs?
How many feet are in a mile? | How many yards are in a mile?
How many ounces are in a pound? | How many grams are in a pound?
How much is a kilo of rice? | How much is a pound of rice?
How hot is 100 Celsius? | How hot is 100 Fahrenheit?
What is the price in dollars? | What is the price in euros?
How much is one bitcoin in USD? | How much is one bitcoin in EUR?
Is 1/2 cup of sugar too much? | Is 1/4 cup of sugar too much?
Is 1 1/2 cups of sugar too much? | Is 2 1/2 cups of sugar too much?
What is two thirds of 60? | What is three quarters of 60?
Solve x^2 = 9 | Solve x^3 = 9
What is 2 + 3? | What is 2 * 3?
What is 2+3? | What is 2-3?
What is twenty minus five? | What is twenty plus five?
How do I bake for twenty people? | How do I bake for thirty people?
What happens at minus ten degrees? | What happens at ten degrees?
Is zero a number of goals? | Is one a number of goals?
What can I buy with a hundred dollars? | What can I buy with a thousand dollars?
Explain the first chapter | Explain the last chapter
Where is order AB-1234? | Where is order AB-1243?
Where is SKU 7781-B? | Where is SKU 7781-C?
What is the part number KX-200? | What is the part number KX-220?
Book room 12A | Book room 12B
Is 5G better than 4G? | Is 4G better than 3G?
How many MB are in 2 GB? | How many KB are in 2 GB?
Is 100 Mbps fast? | Is 100 Kbps fast?
Is 16 GB of RAM enough? | Is 32 GB of RAM enough?
What is a 401k? | What is a 403b?
What is the GDP per capita in 1990s? | What is the GDP per capita in 1980s?
What music was popular in the 80s? | What music was popular in the 90s?
What happened in the 19th century? | What happened in the 20th century?
Who was Henry VIII? | Who was Henry VII?
Who ruled in World War I? | Who ruled in World War II?
What is chapter IV about? | What is chapter VI about?
How do I take one tablet? | How do I take two tablets?
What should a single person do? | What should two people do?
How long does one coat of paint take? | How long do two coats of paint take?
What do I do on day 1? | What do I do on day 2?
What are the top 5 books? | What are the top 10 books?
Recommend five books | Recommend ten books
Is a 3 star hotel good? | Is a 4 star hotel good?
Is 0.5 mg safe? | Is 5 mg safe?
Is 5 mg safe? | Is 5 mcg safe?
Is 5 mg safe? | Is 5 g safe?
Is 98.6 normal? | Is 99.6 normal?
What is 1e3? | What is 1e4?
How much is £5 in rupees? | How much is $5 in rupees?
How much is 100 yen? | How much is 100 yuan?
How much is 100 pesos? | How much is 100 rubles?
How tall is 6 feet 2 inches? | How tall is 6 feet 1 inch?
How tall is 5'10"? | How tall is 5'11"?
How old must you be, 18 or older? | How old must you be, 21 or older?
Is it at least 3 days? | Is it at most 3 days?
Is more than 5 too many? | Is less than 5 too many?
Does it ship within 2 days? | Does it ship after 2 days?
How many people live there per square mile? | How many people live there per square kilometer?
Can I run twice a week? | Can I run once a week?
Should I take it once a day? | Should I take it twice a day?
Can I pay in two installments? | Can I pay in three installments?
Is the pH of 7 neutral? | Is the pH of 8 neutral?
    """,
    "date": """
Is the shop open on Christmas Eve? | Is the shop open on Christmas Day?
Is the shop open at Easter? | Is the shop open at Christmas?
What is due at the end of March? | What is due at the end of April?
What was the price in 2019? | What was the price in 2020?
What was the price in Q1 2023? | What was the price in Q2 2023?
What will happen in two days? | What will happen in three days?
What happened two days ago? | What happened three days ago?
What happened 5 years ago? | What will happen in 5 years?
What happened the day before yesterday? | What happened yesterday?
What is on the day after tomorrow? | What is on tomorrow?
Who won the last match? | Who won the next match?
What did I earn this quarter? | What did I earn last quarter?
Is it open this morning? | Is it open this evening?
When is the next train? | When is the last train?
Is there a bus on Sunday morning? | Is there a bus on Sunday evening?
What is open on weekdays? | What is open on weekends?
What are the holidays of next year? | What are the holidays of this year?
Was it cold in January 2020? | Was it cold in January 2021?
Was it cold in early 2020? | Was it cold in late 2020?
What happened on 9/11? | What happened on 9/12?
What happened on 3/4/2021? | What happened on 4/3/2021?
Did it rain on the 3rd of May? | Did it rain on the 4th of May?
Did it rain on May 3rd? | Did it rain on May 13th?
What is the weather today? | What is the weather now?
What is the deadline for Monday? | What is the deadline for Tuesday?
What happened in the morning? | What happened in the afternoon?
Is it open at noon? | Is it open at midnight?
Was Rome founded in 753 BC? | Was Rome founded in 753 AD?
What is the tax for 2022? | What is the tax for 2023?
Is the moon full tonight? | Is the moon full tomorrow night?
What was new in spring 2021? | What was new in fall 2021?
What did we sell in the first half of 2022? | What did we sell in the second half of 2022?
    """,
    "negation": """
Is it safe to eat raw eggs? | Is it unsafe to eat raw eggs?
Which countries are in the EU? | Which countries are not in the EU?
Who has paid? | Who hasn't paid?
Can I return it with a receipt? | Can I return it without a receipt?
What do vegans eat? | What don't vegans eat?
How do I make it work? | How do I make it not work?
Why is the sky blue? | Why isn't the sky green?
Show all orders | Show no orders
Show orders including refunds | Show orders excluding refunds
Everyone except Tom | Everyone including Tom
List everything but meat | List everything with meat
Is a passport required? | Is a passport not required?
Can I skip the update? | Can I not skip the update?
Do I have to sign? | Do I not have to sign?
Must I pay? | Mustn't I pay?
Is coffee good for you? | Is coffee bad for you?
Why did the test pass? | Why did the test fail?
Which foods cause acne? | Which foods prevent acne?
How do I keep ants in? | How do I keep ants out?
Foods that contain gluten | Foods that are free of gluten
Is this gluten-free? | Is this gluten-rich?
Is it possible to cancel? | Is it impossible to cancel?
Is the answer correct? | Is the answer incorrect?
Is the license valid? | Is the license invalid?
Are they married? | Are they unmarried?
Is it a regular verb? | Is it an irregular verb?
Why do people agree? | Why do people disagree?
Why did the site appear? | Why did the site disappear?
How to be patient? | How to be impatient?
Is it dependent on X? | Is it independent of X?
I have a driver's license, can I rent? | I have no driver's license, can I rent?
What if it rains? | What if it doesn't rain?
What if I don't pay? | What if I pay?
Why do I always win? | Why do I never win?
I can hardly sleep, what do I do? | I can sleep, what do I do?
Is there anything to do? | Is there nothing to do?
Does anyone live there? | Does nobody live there?
Only members can enter? | Not only members can enter?
Remove the comma unless it is last | Remove the comma if it is last
    """,
    "language": """
How do you say cat in Spanish? | How do you say cat in Italian?
Translate dog to Russian | Translate dog to Polish
Write hello world in C | Write hello world in Go
Write hello world in C | Write hello world in C++
Write hello world in R | Write hello world in C
Reverse a string in Java | Reverse a string in JavaScript
Reverse a string in Go | Reverse a string in Rust
Translate from English to German | Translate from German to English
What does bonjour mean in English? | What does bonjour mean in German?
Say good morning in Hindi | Say good morning in Urdu
Say good morning in Tamil | Say good morning in Telugu
Say good morning in Ukrainian | Say good morning in Czech
Translate to Simplified Chinese | Translate to Traditional Chinese
Translate it to Brazilian Portuguese | Translate it to European Portuguese
Translate this to English | Translate this
Explain recursion in French | Explain recursion
Explain recursion in French | Explain recursion in English
Explain photosynthesis. Reply in Korean | Explain photosynthesis. Reply in Japanese
Write a loop in Lua | Write a loop in Perl
Write it in MATLAB | Write it in Fortran
Write a PowerShell script | Write a bash script
Use TypeScript for it | Use JavaScript for it
What is hello in Danish? | What is hello in Norwegian?
What is hello in Finnish? | What is hello in Hungarian?
    """,
    "form": """
List planets as bullet points | List planets as a paragraph
Answer yes or no: is tea healthy? | Explain: is tea healthy?
Describe Rome in 50 words | Describe Rome in 100 words
Describe Rome in two sentences | Describe Rome in three sentences
Describe Rome briefly | Describe Rome in detail
Give the result as YAML | Give the result as JSON
Give me the answer in LaTeX | Give me the answer in Markdown
Explain DNA for a five year old | Explain DNA
Write a haiku about rain | Write a limerick about rain
Write a poem about rain | Write a story about rain
Write a formal email about rent | Write an informal email about rent
Summarize Hamlet | Summarize Hamlet in one sentence
Summarize Hamlet in one paragraph | Summarize Hamlet in one sentence
Give me a short answer: what is DNA? | Give me a long answer: what is DNA?
Write a tweet on AI | Write an essay on AI
Write a letter to my boss | Write a poem to my boss
Explain tides like I'm five | Explain tides
Explain tides in simple terms | Explain tides in technical terms
    """,
}

DIFFERENT = {
    kind: [tuple(line.strip().split(" | ")) for line in lines.strip().splitlines()]
    for kind, lines in _PAIRS.items()
}
