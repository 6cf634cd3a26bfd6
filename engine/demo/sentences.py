"""Templates of single sentences, and of paragraphs that are no more than sentences in a row."""

from engine.demo.phrases import parse_rules

_SENTENCES = """
sentence:
{past_sentence}
{past_sentence}
{past_sentence}
{past_sentence}
{present_sentence}
{present_sentence}
{present_sentence}
{future_sentence}
{question}
{thought}
{compound}
{compound}
past_sentence:
The {animal} sat on the {seat}.
The {animal} sat on the {seat} and looked at {one}.
The {animal} slept on the {seat} {until}.
A {look} {animal} ran across the {place} {when}.
The {animal} was {where}.
There was a {noun} {where}.
There were {number} {thing.pl} on the {seat}.
There was a {animal} under the {seat} and a {thing} on the {seat}.
{who} {do.past}.
{who} {do.past} {until}.
{who} {do.past} {when}.
{who} {do.past} and {do.past}.
{when}, {who} {do.past}.
{when}, {who} {do.past} {until}.
{who} went to the {place}.
{who} went to the {place} to {do}.
{who} went home and {do.past}.
{one} went to {city} by {transport}.
{one} lived in {city} for {number} years.
{one} put the {thing} on the {seat}.
{one} gave the {thing} to {C}.
{one} gave {C} a {noun} and {C.he} thanked {one}.
{one} opened the door and {do.past}.
{one} opened the {noun} and found a {treasure} inside.
{one} looked {where} but could not find the {thing}.
{one} saw a {noun} {where} and wanted to {do}.
{one} told {C} about the {noun}.
{one} asked {C} to {do}.
{one} wanted to {do}, but the {thing} was {look}.
{one} wanted to {do} {because}.
{one} decided to {do} {manner}.
{one} forgot to {do}.
{one} began to {do}.
{one} tried to {do}, but it was too {verdict}.
{one} heard a {look} {animal} {where}.
{one} walked {manner} to the {place} and {do.past}.
{one} was {feeling}.
{one} {seem} {feeling} {because}.
{one} stayed at home {because}.
{they} were {feeling} and wanted to {do}.
{they} were at the {place} {when}.
{they} had a {noun}, but {they} did not have a {thing}.
The {thing} {seem} {look}.
The {noun} was on the {seat}.
The {noun} {where} belonged to {one}.
The {thing} that {A} found {where} was {look} and {look}.
The {worker} who {do.past} was {temper}.
The {place} was {look} and full of people.
The weather was {weather}, so {one} {do.past}.
It was a {weather} {day} in {month}.
It was a dark and {weather} night.
It was {verdict} to {do}.
It was too {weather} to {do}.
It took {number} {unit} to {do}.
Nobody knew who had the {noun}.
When {A} {do.past}, {B} was in the {place}.
After {one} left the {place}, {they} {do.past}.
Before {some_meal}, {one} {do.past}.
The {place} was built in {year} by a {temper} {person}.
He was very {feeling} and {feeling}.
She was very {feeling}, but she did not say anything.
He opened the {thing} and looked inside.
She took the {thing} and went to the {place}.
They did not know what to do, so they {do.past}.
I was {feeling} {because}.
I saw a {look} {animal} {where} {when}.
I wanted to {do}, but I had no {thing}.
We went to the {place} and {do.past}.
We were in {city} {when}.
You said that the {thing} was {look}.
The {animal} did not cross the [street|river|bridge|field] because it was too [tired|{feeling}|wide|dangerous].
The {barrier=b.1} was too small for the {b.2}.
The {barrier=b.2} did not fit into the {b.1} because it was too [big|small].
When {A} and {B} went to the {place}, {A} gave a {treasure} to {B}.
When {A} and {B} went to the {place}, {B} gave a {treasure} to {A}.
After {A} and {B} went to the {place=p}, {A} bought a {noun} for {B}, and {B} thanked {A}.
{A} and {B} were {where}, and {B} showed the {treasure} to {A}.
present_sentence:
The {animal} is {where}.
The {animal} likes to {do}.
The {noun} is on the {seat}.
The {thing} is {look}, but the {thing} is {look}.
The {more.1} {thing} is for {one}.
The {worker} {do.s} {often_time}.
{one} {do.s} {often_time}.
{one} {often} {do.s}.
{one} {modal} {do}.
{one} is {do.ing}.
{one} is {do.ing} {where}.
{one} is {feeling} today.
{one} is a {temper} {person}.
{one} likes {food} and {drink}.
{one} likes {do.ing} and {do.ing}.
{one} does not like {food}.
{one} knows how to {do}.
{one} needs a {noun} to {do}.
{one} lives in {city} and works at a {place}.
{one} speaks {language} and {language}.
{they} often {do} {where}.
{they} are {do.ing} now.
{they} want to {do}.
{they} like {subject} and {subject}.
There is a {noun} {where}.
There are {number} {thing.pl} {where}.
There is nothing {look} {where}.
This is a {noun}, and that is a {noun}.
This {thing} is {more.1} than that one.
This is the {thing} that {one} bought in {city}.
These {thing.pl} are very {look}.
My {relative} is {taller} than my {relative}.
My {relative} works as a {worker}.
My {relative} is {count} years old and lives in {city}.
My favourite {place} is in {city}.
My favourite food is {food}.
My name is {A} and I live in {city}.
My name is {A} {surname} and I am a {worker}.
Your {thing} is {where}.
Our {place} is {look} and {look}.
I like to {do} {often_time}.
I am {do.ing} because I am {feeling}.
I have a {noun} and a {noun}.
I have {number} {animal.pl} and a {animal}.
I would like {food} and {drink}, please.
I do not know where the {thing} is.
I want to {do} with my {relative}.
I love {food}, but I do not like {food}.
I need to {do} before {some_meal}.
We can {do} {where}.
We need to {do} {often_time}.
We have to {do} before it gets dark.
You can {do} at the {place}.
You should not {do} when it is {weather}.
He is a {temper} {worker} and lives in {city}.
She is a {temper} {worker} and likes to {do}.
He has a {noun} in his {thing}.
She has {number} {thing.pl} and a {noun}.
It is {verdict} to {do}.
It is very {verdict} to {do} {where}.
It is {hour} o'clock, and {one} is still {do.ing}.
It is {weather} today, so we can {do}.
The best way to {do} is to {do} first.
The best way to learn {subject} is to {do}.
The meaning of life is to {do} and to {do}.
The {place} is open from {hour} to {hour}.
The {place} is near the {place}.
The weather is {weather} and {weather} today.
The {worker} says that the {thing} is {verdict}.
The {thing} at the {place} is {colour}, and the {thing} is {colour}.
The price of the {thing} is {count} dollars.
The {ordinal} {thing} is {look}, the second one is {look}, and the third one is {look}.
People often {do} {where}.
Some people like to {do}, and others like to {do}.
Children learn to {do} at school.
Every {worker} has a {noun}.
Without {idea} there is no {idea}.
A good {worker} is {temper} and {temper}.
future_sentence:
Tomorrow {one} will {do}.
Tomorrow I will {do} and {do}.
{one} will {do} {until}.
{one} is going to {do} next {day}.
Next {season} {they} will go to {country}.
Today we can go to the {place} and {do}.
Today we can go to {city} by {transport}.
Today I want to {do}.
If it is {weather}, we will {do}.
If you want to {do}, you need a {noun}.
If you see {A}, tell {A.him} that the {thing} is {where}.
If {A} does not come, {B} will {do}.
If I had a {noun}, I would {do}.
When I grow up, I want to be a {worker}.
When the {place} opens, {they} will {do}.
We will meet at the {place} at {hour} o'clock.
You will find the {treasure} {hiding}.
Soon it will be {season}, and {they} will {do}.
Let us go to the {place} and {do}.
Let's go to the {place} before it closes.
Please {do} before you go home.
Please do not {do} at the {place}.
Do not forget to {do}.
question:
Where is the {thing}? It is {where}.
Where is {A}? {A.He} is at the {place}.
Where are you going? I am going to the {place}.
What is your name? My name is {A}.
What are you doing? I am {do.ing}.
What did {A} do {when}? {A.He} {do.past}.
What do you want to eat? I would like {food}.
What time is it? It is {hour} o'clock.
What is the capital of {capital=c.1}? The capital of {c.1} is {c.2}.
What is the opposite of {opposite=o.1}? The opposite of {o.1} is {o.2}.
What colour is {coloured=k.1}? It is {k.2}.
Who has the {noun}? {B} has it.
Who is {A}? {A.He} is my {relative}.
Why did {A} {do}? Because {A.he} was {feeling}.
Why are you {feeling}? Because I have to {do}.
How much is the {thing}? It is {count} dollars.
How old are you? I am {age} years old.
How are you? I am {feeling}, thank you.
How do you get to the {place}? You can go by {transport}.
Do you want to {do}? Yes, I do.
Do you like {food}? No, but I like {food}.
Do you know {A}? Yes, {A.he} is a {worker} in {city}.
Can you {do}? No, but my {relative} can.
Can I {do} here? Of course you can.
Is the {thing} {look}? No, it is {look}.
Are you {feeling}? Yes, I am very {feeling}.
Did you see the {noun}? It was {where}.
Have you ever been to {city}? I was there in {year}.
thought:
I think that {one} is {feeling}.
I think that the {thing} is {verdict}.
I think we should {do}.
I hope that {they} will {do}.
I believe that {idea} is more important than {idea}.
I know that {A} wants to {do}.
{A} thinks that {B} is {temper}.
{A} said that {A.he} wanted to {do}.
{A} said that {B} had the {noun}.
{A} told {B} that {A.he} was {feeling}.
{A} asked {B} where the {thing} was.
{A} hoped that {B} would {do}.
{A} knew that the {treasure} was {hiding}.
{A} remembered that {A.he} had to {do}.
"I am {feeling}," {say} {A}.
"Where is my {thing}?" asked {A}. "It is {where}," said {B}.
"Can you {do}?" {A} asked. "I will try," {B} answered.
"Please {do}," {say} the {worker}.
"It is time to {do}," said {A.his} {relative}.
compound:
{A} {do.past}, and {B} {do.past}.
{A} {do.past}, but {B} {do.past}.
{A} {do.past} while {B} {do.past}.
{A} {do.past}, and then {A.he} {do.past}.
{A} {do.past} before {A.he} {do.past}.
{A} lost {A.his} {thing}, so {A.he} went back to the {place}.
{A} took the {noun} and gave it to {B}.
{A} has a {noun}, and {B} has a {noun}.
{A} is {feeling}, but {B} is {feeling}.
{A} is {taller} than {B}, but {B} is more {temper}.
{A} likes {food}, {B} likes {food}, and {C} likes {food}.
{A} went to {city=x}, {B} went to {city}, and {C} stayed at home.
First {one} {do.past}, then {one} {do.past}, and at last {they} {do.past}.
Although it was {weather}, {one} {do.past}.
As soon as {A} saw the {animal}, {A.he} {do.past}.
Every time {A} {do.past}, {B} {do.past}.
Either {A} or {B} has the {noun}.
Neither the {thing} nor the {thing} was {look}.
Not only {A} but also {B} wanted to {do}.
The more {A} {do.past}, the more {feeling} {A.he} was.
While the {worker} was {do.ing}, the {animal} {seem} {feeling}.
Because the {thing} was {look}, {A} had to {do}.
paragraph:
{sentence} {sentence} {sentence}
{sentence} {sentence} {sentence} {sentence}
{past_sentence} {compound} {past_sentence} {thought}
{present_sentence} {present_sentence} {future_sentence}
{question} {question} {present_sentence}
"""

SENTENCE_RULES: dict[str, tuple[str, ...]] = parse_rules(_SENTENCES)
"""Every rule that makes a sentence or a paragraph."""
