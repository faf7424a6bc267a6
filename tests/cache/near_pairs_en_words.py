"""English questions that must not share an answer: words that exclude each other, names, order.

One pair a line. They differ in little; many have a cosine above 0.90.
"""

from __future__ import annotations

_PAIRS = {
    "contrast": """
What increases blood pressure? | What lowers blood pressure?
What are the causes of anemia? | What are the effects of anemia?
What are the symptoms of flu? | What is the treatment for flu?
How do I borrow money? | How do I lend money?
Is the price rising? | Is the price falling?
How to speed up a video? | How to slow down a video?
How do I zoom in? | How do I zoom out?
How do I log in? | How do I log out?
How do I check in? | How do I check out?
How do I mute the mic? | How do I unmute the mic?
How do I pause my plan? | How do I resume my plan?
How do I upgrade my plan? | How do I downgrade my plan?
How do I make it louder? | How do I make it quieter?
What is the best case? | What is the worst case?
What is the largest planet? | What is the smallest planet?
What is the tallest building? | What is the shortest building?
What is the longest river? | What is the shortest river?
Who is the youngest king? | Who is the oldest king?
What is the nearest star? | What is the farthest star?
What is the upper limit? | What is the lower limit?
What is the minimum age? | What is the maximum age?
Is it ahead of schedule? | Is it behind schedule?
Where do I enter? | Where do I exit?
Who won? | Who lost?
Who attacked first? | Who defended first?
How do I import contacts? | How do I export contacts?
How do I hide a column? | How do I show a column?
Sort in ascending order | Sort in descending order
Is it a strength? | Is it a weakness?
What are the advantages? | What are the disadvantages?
What are the pros? | What are the cons?
Is the glass half full? | Is the glass half empty?
Is the sea warm in May? | Is the sea cold in May?
What does the sender pay? | What does the receiver pay?
What does the buyer pay? | What does the seller pay?
What is gross income? | What is net income?
What is simple interest? | What is compound interest?
How do I get debt? | How do I get credit?
Is it for men? | Is it for women?
Clothes for boys | Clothes for girls
Who is his mother? | Who is his father?
Who is her brother? | Who is her sister?
What did his uncle do? | What did his aunt do?
Is it for dogs? | Is it for cats?
Can dogs eat grapes? | Can cats eat grapes?
Is red wine healthy? | Is white wine healthy?
Why is the light red? | Why is the light green?
Is it on the east coast? | Is it on the west coast?
Is it in northern Italy? | Is it in southern Italy?
What is on the front page? | What is on the back page?
What is the first step? | What is the last step?
What should I do before the exam? | What should I do during the exam?
What should I do during a run? | What should I do after a run?
How to gain weight? | How to lose weight?
Is he guilty? | Is he innocent?
What is a noun? | What is a verb?
What is a synonym of happy? | What is an antonym of happy?
Is it a question of supply? | Is it a question of demand?
What does input mean here? | What does output mean here?
How do I push a branch? | How do I pull a branch?
How do I commit a change? | How do I revert a change?
How to open a bank account? | How to close a bank account?
How do I freeze my card? | How do I unfreeze my card?
How do I activate my card? | How do I deactivate my card?
How do I add a user? | How do I delete a user?
How do I create a user? | How do I remove a user?
How do I approve a request? | How do I decline a request?
How do I accept an invite? | How do I reject an invite?
Turn the volume up | Turn the volume down
Is it heavier than air? | Is it lighter than air?
Is it deeper here? | Is it shallower here?
Is it more expensive? | Is it less expensive?
Is it more expensive? | Is it cheaper?
Is it better? | Is it worse?
Is it faster? | Is it slower?
Is it legal? | Is it illegal?
Is it a vowel? | Is it a consonant?
Credit card payment | Debit card payment
How to pay by card? | How to pay by cash?
Can I pay in cash? | Can I pay in card?
What is a virus? | What is a bacterium?
Is it indoor? | Is it outdoor?
Set an alarm | Cancel an alarm
Start the timer | Stop the timer
Book a flight | Cancel a flight
Open the window | Close the window
Arrival time of AA12 | Departure time of AA12
Why was my card charged? | Why was my card refunded?
    """,
    "name": """
Who wrote Hamlet? | Who wrote Macbeth?
What is the population of Canada? | What is the population of Australia?
weather in paris | weather in london
how do i delete my facebook account | how do i delete my instagram account
What is the capital of South Korea? | What is the capital of North Korea?
How do I install Docker on Ubuntu? | How do I install Docker on Debian?
Who is John Smith? | Who is John Brown?
When was Obama born? | When was Trump born?
what is the currency of nepal | what is the currency of bhutan
How do I use React hooks? | How do I use Vue hooks?
What does the CEO of Apple earn? | What does the CEO of Google earn?
flights to tokyo | flights to osaka
Who plays Batman? | Who plays Superman?
best restaurants in rome | best restaurants in milan
How do I reach gate B12? | How do I reach gate C12?
Does Alice like tea? | Does Bob like tea?
Send it to Alice | Send it to Bob
What time is it in New York? | What time is it in New Delhi?
What is the GDP of Georgia? | What is the GDP of Germany?
Is the Nile longer? | Is the Amazon longer?
What is the capital of Niger? | What is the capital of Nigeria?
What is the capital of Austria? | What is the capital of Australia?
Where is Iran? | Where is Iraq?
What is the flag of Slovakia? | What is the flag of Slovenia?
What is Mali known for? | What is Malta known for?
Which HTTP method is GET? | Which HTTP method is PUT?
What does the DNS do? | What does the DHCP do?
What is JWT? | What is JWE?
What is polish? | What is Polish?
    """,
    "order": """
Is A bigger than B? | Is B bigger than A?
Is Mars bigger than Venus? | Is Venus bigger than Mars?
from celsius to fahrenheit | from fahrenheit to celsius
How do I move from Windows to Linux? | How do I move from Linux to Windows?
Can a dog infect a human? | Can a human infect a dog?
Who did Tom hit? | Who hit Tom?
Did the teacher call the parents? | Did the parents call the teacher?
Is Java faster than Python? | Is Python faster than Java?
Send money from Ana to Bo | Send money from Bo to Ana
Does smoking cause stress? | Does stress cause smoking?
Does poverty lead to crime? | Does crime lead to poverty?
Subtract 5 from 10 | Subtract 10 from 5
Divide 10 by 5 | Divide 5 by 10
What is 2 to the power of 3? | What is 3 to the power of 2?
Convert JSON to XML | Convert XML to JSON
Replace a with b | Replace b with a
Is the sun older than the earth? | Is the earth older than the sun?
Was Kennedy before Johnson? | Was Johnson before Kennedy?
Should I eat before swimming? | Should I swim before eating?
Should I shower before shaving? | Should I shave before showering?
Does A depend on B? | Does B depend on A?
Can I lend Bob my car? | Can Bob lend me his car?
Did he leave her? | Did she leave him?
Do I owe you? | Do you owe me?
Why does she like him? | Why does he like her?
What did you tell them? | What did they tell you?
Flights from JFK to LAX | Flights from LAX to JFK
Flights to Paris from London | Flights from Paris to London
the distance from A to B via C | the distance from A to C via B
Exchange dollars for euros | Exchange euros for dollars
usd to eur | eur to usd
100 usd in eur | 100 eur in usd
How many dollars is 100 euros? | How many euros is 100 dollars?
Prefer tea over coffee? | Prefer coffee over tea?
Use tea instead of coffee | Use coffee instead of tea
Man bites dog | Dog bites man
Is every square a rectangle? | Is every rectangle a square?
Are all cats mammals? | Are all mammals cats?
Does Paris belong to France? | Does France belong to Paris?
    """,
}

DIFFERENT = {
    kind: [tuple(line.strip().split(" | ")) for line in lines.strip().splitlines()]
    for kind, lines in _PAIRS.items()
}
