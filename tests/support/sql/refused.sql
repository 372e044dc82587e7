SELECT COUNT(*) FROM t JOIN u ON t.age = u.age
--> u : JOIN can only read a public side table; 'u' is not one. The public tables are ages.

SELECT COUNT(*) FROM t NATURAL JOIN u
--> NATURAL : Only JOIN (inner) and LEFT JOIN with a public side table are supported.

SELECT COUNT(*) FROM t, u
--> , : Only JOIN (inner) and LEFT JOIN with a public side table are supported.

SELECT COUNT(*) FROM t WHERE age > 3
  AND row_number() OVER (ORDER BY age) < 3
--> OVER : Window functions (OVER) are not supported, except totals: SUM(COUNT(*)) OVER ().

SELECT SUM(age) OVER () FROM t
--> OVER : Window functions (OVER) are not supported, except totals: SUM(COUNT(*)) OVER ().

SELECT DISTINCT sex, COUNT(*) FROM t GROUP BY sex
--> DISTINCT : SELECT DISTINCT is not supported: use GROUP BY.

SELECT COUNT(*) FROM t UNION ALL SELECT COUNT(*) FROM t
--> UNION : UNION is not supported: ask each question by itself.

WITH x AS (SELECT 1) SELECT COUNT(*) FROM x
--> SELECT : WITH and a sub-select in FROM choose rows and columns: (SELECT columns FROM t WHERE ...). Write the rest into the question itself.

SELECT COUNT(*) FROM t; SELECT COUNT(*) FROM t
--> ; : Only one statement can be asked at a time.

SELECT COUNT(*) FROM t; DROP TABLE t
--> ; : Only one statement can be asked at a time.

DROP TABLE t
--> DROP : A question must begin with SELECT, like SELECT COUNT(*) FROM t.

EXPLAIN SELECT COUNT(*) FROM t
--> EXPLAIN : A question must begin with SELECT, like SELECT COUNT(*) FROM t.

FROM t
--> FROM : A question must begin with SELECT, like SELECT COUNT(*) FROM t.

COPY t TO 'x.csv'
--> COPY : A question must begin with SELECT, like SELECT COUNT(*) FROM t.

PRAGMA database_list
--> PRAGMA : A question must begin with SELECT, like SELECT COUNT(*) FROM t.

SELECT sex FROM t GROUP BY sex
--> sex : The question must ask for an aggregate: COUNT, COUNT_IF, SUM, AVG, MEDIAN, QUANTILE, PERCENTILE_CONT, PERCENTILE_DISC, VAR_POP, VAR_SAMP, STDDEV, COVAR_POP, COVAR_SAMP, CORR, REGR_SLOPE, REGR_INTERCEPT and REGR_R2 are supported.

SELECT * FROM t
--> * : SELECT * is not supported: COUNT, COUNT_IF, SUM, AVG, MEDIAN, QUANTILE, PERCENTILE_CONT, PERCENTILE_DISC, VAR_POP, VAR_SAMP, STDDEV, COVAR_POP, COVAR_SAMP, CORR, REGR_SLOPE, REGR_INTERCEPT and REGR_R2 are supported.

SELECT t.*, COUNT(*) FROM t
--> *, : A column is written as name or table.name.

SELECT COUNT(t.*) FROM t
--> *) : A column is written as name or table.name.

SELECT SUM(*) FROM t
--> SUM(*) : SUM needs an expression.

SELECT AVG() FROM t
--> AVG() : AVG needs an expression.

SELECT age + 1, COUNT(*) FROM t
--> age : 'age + 1' is selected but not in GROUP BY.

SELECT SUM(SUM(age)) FROM t
--> SUM(age)) : SUM cannot be used here: aggregates stand after SELECT, in HAVING and in ORDER BY.

SELECT COUNT(*) FROM t WHERE SUM(age) > 3
--> SUM(age) : SUM cannot be used here: aggregates stand after SELECT, in HAVING and in ORDER BY.

SELECT FROM t
--> FROM : A column or an aggregate is missing here.

SELECT COUNT(*)
--> (end) : FROM is missing.

SELECT COUNT(*) FROM
--> (end) : The name of a table is missing after FROM.

SELECT
--> (end) : A column or an aggregate is missing here.

SELECT COUNT(*) FROM WHERE age > 3
--> WHERE : FROM takes the name of a table, such as t.

SELECT COUNT(*) FROM t WHERE
--> (end) : A condition is missing after WHERE.

SELECT COUNT(*) FROM t WHERE GROUP BY sex
--> GROUP : A condition is missing after WHERE.

SELECT COUNT(*) FROM t WHERE age > 3 AND
--> (end) : A condition or expression is missing here.

SELECT COUNT(*) FROM t WHERE AND age > 3
--> AND : A condition or expression is missing here.

SELECT COUNT(*) FROM t WHERE age >
--> > : Something is missing at or after '>'.

SELECT COUNT(*) FROM t WHERE age 3
--> 3 : Syntax error at or near '3'.

SELECT COUNT(*) FROM t WHERE (age > 3
--> (age : This parenthesis is never closed.

SELECT COUNT(*) FROM t WHERE age > 3)
--> ) : This parenthesis closes nothing.

SELECT COUNT(*) FROM t WHERE ()
--> ) : A condition or expression is missing here.

SELECT COUNT(*) FROM t WHERE sex = 'Male
--> 'Male : A closing ' is missing.

SELECT COUNT(*) FROM t WHERE "sex = 'Male'
--> "sex : A closing " is missing.

SELECT COUNT(*) FROM t /* never closed
--> /* : A closing */ is missing.

SELECT COUNT(*) FROM t WHERE CASE WHEN smoker THEN 1
--> 1 : Syntax error at or near '1'.

SELECT COUNT(*) FROM t GROUP BY
--> (end) : A column is missing after GROUP BY.

SELECT COUNT(*) FROM t GROUP BY 1
--> 1 : 1 is not the position of a selected column.

SELECT sex, COUNT(*) FROM t GROUP BY 3
--> 3 : 3 is not the position of a selected column.

SELECT sex, COUNT(*) FROM t
--> sex, : 'sex' is selected but not in GROUP BY.

SELECT sex, COUNT(*) FROM t GROUP BY age
--> sex, : 'sex' is selected but not in GROUP BY.

SELECT COUNT(*) FROM t GROUP BY name
--> name : 'name' is an identifier and is never published.

SELECT COUNT(name) FROM t
--> name) : 'name' is an identifier and is never published.

SELECT COUNT(*) FROM t WHERE Name = 'Ann'
--> Name : 'name' is an identifier and is never published.

SELECT COUNT(*) FROM t WHERE ag > 3
--> ag : There is no column 'ag'. Did you mean age?

SELECT COUNT(*) FROM t WHERE salary > 3
--> salary : There is no column 'salary'. The columns are age, sex, education-num, weight, admitted, smoker, occupation.

SELECT COUNT(*) FROM t WHERE sex = "Male"
--> "Male" : There is no column 'Male'. If it is text, write it in single quotes. The columns are age, sex, education-num, weight, admitted, smoker, occupation.

SELECT COUNT(*) FROM t WHERE age > 3 AND education-num > 3
--> num : There is no column 'num'. Write "education-num", with its double quotes.

SELECT education-num, COUNT(*) FROM t GROUP BY 1
--> num, : There is no column 'num'. Write "education-num", with its double quotes.

SELECT AVG(education-num) FROM t
--> num) : There is no column 'num'. Write "education-num", with its double quotes.

SELECT COUNT(*) FROM t AS x WHERE t.age > 3
--> t.age : There is no table 't' here: FROM calls it 'x'.

SELECT COUNT(*) FROM t WHERE a.b.age > 3
--> age : A column is written as name or table.name.

SELECT COUNT(*) FROM t WHERE random() < 0.5
--> random() : random is not supported: it is not a deterministic function of one row (it depends on chance, the clock or the system, or it returns many rows).

SELECT COUNT(*) FROM t WHERE admitted < now()
--> now() : now is not supported: it is not a deterministic function of one row (it depends on chance, the clock or the system, or it returns many rows).

SELECT COUNT(*) FROM t WHERE admitted < current_date
--> current_date : current_date is not supported: its value depends on when or by whom it is asked.

SELECT COUNT(*) FROM t WHERE uuid() = sex
--> uuid() : uuid is not supported: it is not a deterministic function of one row (it depends on chance, the clock or the system, or it returns many rows).

SELECT COUNT(*) FROM t WHERE age(admitted) > INTERVAL 1 YEAR
--> age(admitted) : age(...) of one date is not supported: it reads the clock. Give the second date.

SELECT COUNT(*) FROM t WHERE getenv('HOME') = sex
--> getenv('HOME') : getenv is not supported: it is not a deterministic function of one row (it depends on chance, the clock or the system, or it returns many rows).

SELECT COUNT(*) FROM t WHERE current_setting('threads') = sex
--> current_setting('threads') : current_setting is not supported: it is not a deterministic function of one row (it depends on chance, the clock or the system, or it returns many rows).

SELECT COUNT(*) FROM t WHERE current_localtimestamp() > admitted
--> current_localtimestamp() : current_localtimestamp is not supported: it is not a deterministic function of one row (it depends on chance, the clock or the system, or it returns many rows).

SELECT COUNT(*) FROM t WHERE lowr(sex) = 'male'
--> lowr(sex) : There is no function 'lowr'. Did you mean lower?

SELECT COUNT(*) FROM t WHERE "lower"(sex) = 'male'
--> "lower"(sex) : Write the name of a function without quotes.

SELECT COUNT(*) FROM t WHERE sex.lower() = 'male'
--> sex.lower() : Write a column as name or table.name, and a function as f(x).

SELECT COUNT(*) FROM t WHERE pg_catalog.lower(sex) = 'male'
--> pg_catalog.lower(sex) : Write a column as name or table.name, and a function as f(x).

SELECT COUNT(*) FROM t WHERE unnest(range(age)) > 3
--> unnest(range(age)) : unnest is not supported: it is not a deterministic function of one row (it depends on chance, the clock or the system, or it returns many rows).

SELECT COUNT(*) FROM t WHERE age = ?
--> ? : Parameters are not supported: write the value itself.

SELECT COUNT(*) FROM t WHERE age = $1
--> $1 : Parameters are not supported: write the value itself.

SELECT COUNT(*) FROM t WHERE list_transform(range(age), x -> x + 1) IS NULL
--> -> : Lists, structs and lambda functions are not supported: use scalar expressions.

SELECT COUNT(*) FROM t WHERE list_filter(range(age), lambda x: x > 1) IS NULL
--> : : Lists, structs and lambda functions are not supported: use scalar expressions.

SELECT COUNT(*) FROM t WHERE age IN [1, 2]
--> [1, : Lists, structs and lambda functions are not supported: use scalar expressions.

SELECT COUNT(*) FROM t WHERE {'a': age} IS NULL
--> {'a': : Lists, structs and lambda functions are not supported: use scalar expressions.

SELECT COUNT(*) FROM t WHERE (age, sex) IN ((20, 'Male'))
--> 20, : Tuples are not supported: compare the columns one by one.

SELECT COUNT(*) FROM t WHERE sex COLLATE NOCASE = 'male'
--> COLLATE : COLLATE is not supported: use lower(...) or strip_accents(...).

SELECT COUNT(*) FROM t WHERE sex = $$Male$$
--> $$Male$$ : This kind of literal is not supported: write text in single quotes.

SELECT COUNT(*) FROM t WHERE sex = E'Male'
--> E'Male' : This kind of literal is not supported: write text in single quotes.

SELECT COUNT(*) FROM t WHERE sex = x'ff'
--> 'ff' : Syntax error at or near 'ff'.

SELECT COUNT(*) FROM t WHERE age = 0x1F
--> x1F : Syntax error at or near 'x1F'.

SELECT COUNT(*) FROM t WHERE sex = `Male`
--> `Male` : This symbol is not part of the supported SQL.

SELECT COUNT(*) FROM t WHERE sex = 'a' 'b'
--> 'a' : Write text as one literal, or join it with ||.

SELECT COUNT(*) FROM t WHERE CAST(sex AS ENUM('a')) = 'a'
--> ENUM('a')) : 'ENUM' is not understood here.

SELECT COUNT(*) FROM t WHERE sex::regtype = 'a'
--> regtype : 'regtype' is not understood here.

SELECT COUNT(*) FROM read_csv('secret.csv')
--> read_csv('secret.csv') : FROM takes the name of a table, not a function.

SELECT COUNT(*) FROM 'secret.csv'
--> 'secret.csv' : FROM takes the name of a table, such as t.

SELECT COUNT(*) FROM (SELECT sex, COUNT(*) FROM t GROUP BY sex)
--> GROUP : 'GROUP BY' is not supported here. WITH and a sub-select in FROM choose rows and columns: (SELECT columns FROM t WHERE ...). Write the rest into the question itself.

SELECT COUNT(*) FROM (VALUES (1))
--> VALUES : WITH and a sub-select in FROM choose rows and columns: (SELECT columns FROM t WHERE ...). Write the rest into the question itself.

SELECT COUNT(*) FROM adult-view
--> adult-view : Put a name with a hyphen into double quotes.

SELECT COUNT(*) FROM ages
--> ages : 'ages' is a public side table: questions are about the view. Name the view first and JOIN the side table, or use IN (SELECT column FROM table).

SELECT COUNT(*) FROM t TABLESAMPLE 10%
--> TABLESAMPLE : Samples are not supported: the error of the answer would not be known.

SELECT COUNT(*) FROM t PIVOT (COUNT(*) FOR sex IN ('Male'))
--> PIVOT : PIVOT is not supported: use GROUP BY.

SELECT COUNT(*) FROM t WHERE age > (SELECT 3)
--> 3) : A sub-select may only be (SELECT column FROM public_table WHERE ...).

SELECT COUNT(*) FROM t WHERE age = ANY (SELECT age FROM ages)
--> ANY : ANY, ALL and SOME are not supported: use IN (SELECT column FROM public_table ...).

SELECT COUNT(*) FROM t WHERE age IN (SELECT age FROM t)
--> t) : A sub-select can only read a public side table; 't' is not one. The public tables are ages.

SELECT COUNT(*) FROM t WHERE age IN (SELECT age FROM strangers)
--> strangers) : A sub-select can only read a public side table; 'strangers' is not one. The public tables are ages.

SELECT COUNT(*) FROM t WHERE age IN (SELECT ag FROM ages)
--> ag : There is no column 'ag'. Did you mean age?

SELECT COUNT(*) FROM t WHERE age IN (SELECT * FROM ages)
--> * : A sub-select may only be (SELECT column FROM public_table WHERE ...).

SELECT COUNT(*) FROM t WHERE age IN (SELECT age, young FROM ages)
--> age, : A sub-select may only be (SELECT column FROM public_table WHERE ...).

SELECT COUNT(*) FROM t WHERE age IN (SELECT age FROM ages GROUP BY age)
--> age : A sub-select may only be (SELECT column FROM public_table WHERE ...).

SELECT COUNT(*) FROM t WHERE age IN (SELECT age FROM ages, ages AS b)
--> age : A sub-select may only be (SELECT column FROM public_table WHERE ...).

SELECT COUNT(*) FROM t WHERE age IN (SELECT age FROM read_csv('secret.csv'))
--> read_csv('secret.csv')) : read_csv is not supported: it is not a deterministic function of one row (it depends on chance, the clock or the system, or it returns many rows).

SELECT COUNT(*) FROM t WHERE age IN (SELECT age FROM other.ages)
--> age : A sub-select may only be (SELECT column FROM public_table WHERE ...).

SELECT COUNT(*) FROM t WHERE age IN (VALUES (1))
--> VALUES : There is no function 'VALUES'.

SELECT COUNT(*) FROM t WHERE age IN (SELECT 3)
--> 3) : A sub-select may only be (SELECT column FROM public_table WHERE ...).

SELECT COUNT(*) INTO x FROM t
--> INTO : Syntax error at or near 'INTO'.

SELECT COUNT(*) FROM t WHERE age > 3 WHERE age < 5
--> WHERE : Syntax error at or near 'WHERE'.

SELECT COUNT(*) FROM t u v
--> v : 'v' is not supported here.

SELECT COUNT(*) FROM t WHERE if smoker
--> if : Write CASE WHEN ... THEN ... END, or if(condition, a, b).

SELECT COUNT(*) FROM (SELECT * FROM t WHERE age > 3 LIMIT 3) AS w
--> LIMIT : 'LIMIT' is not supported here. WITH and a sub-select in FROM choose rows and columns: (SELECT columns FROM t WHERE ...). Write the rest into the question itself.

SELECT COUNT(*) FROM (SELECT * FROM t JOIN ages ON ages.age = t.age) AS w
--> FROM : JOIN stands in the question itself, after FROM.

SELECT COUNT(*) FROM (SELECT age + 1 FROM t) AS w
--> age : Give this expression a name by AS.

SELECT COUNT(*) FROM (SELECT age, sex AS age FROM t) AS w
--> sex : Two columns are called 'age': give one an alias.

SELECT COUNT(*) FROM (SELECT DISTINCT age FROM t) AS w
--> DISTINCT : SELECT DISTINCT is not supported: use GROUP BY.

WITH w AS (SELECT age FROM t) SELECT COUNT(*) FROM w WHERE sex = 'Male'
--> sex : There is no column 'sex'. The columns are age.

WITH w AS (SELECT * FROM t) SELECT t.age, COUNT(*) FROM w GROUP BY t.age
--> t.age : There is no table 't' here: FROM calls it 'w'.

WITH w AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) SELECT AVG(n) FROM w
--> GROUP : 'GROUP BY' is not supported here. WITH and a sub-select in FROM choose rows and columns: (SELECT columns FROM t WHERE ...). Write the rest into the question itself.

WITH w AS (SELECT * FROM t), w AS (SELECT * FROM t) SELECT COUNT(*) FROM w
--> w : There is a table 'w' already: choose another name.

WITH w AS (SELECT * FROM t WHERE) SELECT COUNT(*) FROM w
--> WHERE) : A condition is missing after WHERE.

SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM t GROUP BY sex HAVING COUNT(*) > 3
--> SUM(COUNT(*)) : OVER () would add up the groups that HAVING leaves: write (SELECT COUNT(*) FROM t WHERE ...) for the total.

SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM t GROUP BY ROLLUP (sex)
--> SUM(COUNT(*)) : OVER () would add up groups and totals: write (SELECT COUNT(*) FROM t WHERE ...) for the total.

SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY age) AS share FROM t GROUP BY sex
--> age) : 'age' is not in GROUP BY: PARTITION BY names its columns.

SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER (ORDER BY sex) AS share FROM t GROUP BY sex
--> ORDER : OVER is for totals: SUM(COUNT(*)) OVER (), or OVER (PARTITION BY column of GROUP BY).

SELECT sex, COUNT(*) / SUM(COUNT(*) + 1) OVER () AS share FROM t GROUP BY sex
--> COUNT(*) : OVER is for totals: SUM(COUNT(*)) OVER (), or OVER (PARTITION BY column of GROUP BY).

SELECT sex, RANK() OVER (ORDER BY COUNT(*)) FROM t GROUP BY sex
--> OVER : Window functions (OVER) are not supported, except totals: SUM(COUNT(*)) OVER ().

SELECT sex, COUNT(*) / (SELECT MEDIAN(age) FROM t) FROM t GROUP BY sex
--> MEDIAN(age) : A sub-select on the view is one total here: (SELECT COUNT(*) FROM t WHERE ...), or SUM or AVG in place of COUNT.

SELECT sex, COUNT(*) / (SELECT COUNT(*) FROM t GROUP BY sex) FROM t GROUP BY sex
--> GROUP : A sub-select on the view is one total here: (SELECT COUNT(*) FROM t WHERE ...), or SUM or AVG in place of COUNT.

SELECT sex, COUNT(*) / (SELECT COUNT(*) FROM u) FROM t GROUP BY sex
--> COUNT(*) : A sub-select beside an aggregate is a total of the table that FROM names, such as (SELECT COUNT(*) FROM t WHERE ...).

SELECT round(QUANTILE_CONT(age, [0.25, 0.75])) FROM t
--> [0.25, : A list of shares stands by itself in SELECT, as in QUANTILE_CONT(x, [0.25, 0.75]): each share is a column.

SELECT QUANTILE_CONT(age, [0.25, 2]) FROM t
--> 2]) : The share is a number from 0 to 1.

SELECT QUANTILE_CONT([0.25], age) FROM t
--> [0.25], : Lists, structs and lambda functions are not supported: use scalar expressions.

SELECT sex, QUANTILE_CONT(age, []) FROM t GROUP BY sex
--> []) : Lists, structs and lambda functions are not supported: use scalar expressions.

SELECT COUNT(*) AS n FROM t HAVING QUANTILE_CONT(age, [0.5]) > 3
--> [0.5]) : A list of shares stands by itself in SELECT, as in QUANTILE_CONT(x, [0.25, 0.75]): each share is a column.

SELECT MODE(sex), COUNT(*) FROM t
--> MODE(sex), : MODE stands by itself: SELECT MODE(x) FROM t WHERE ... For groups, or beside other numbers, ask for COUNT(*) by GROUP BY x and sort it.

SELECT sex, MODE(age) FROM t GROUP BY sex
--> MODE(age) : MODE stands by itself: SELECT MODE(x) FROM t WHERE ... For groups, or beside other numbers, ask for COUNT(*) by GROUP BY x and sort it.

SELECT MODE(sex) FROM t LIMIT 1
--> MODE(sex) : MODE stands by itself: SELECT MODE(x) FROM t WHERE ... For groups, or beside other numbers, ask for COUNT(*) by GROUP BY x and sort it.

SELECT REGR_SXX(age, age) FROM t
--> REGR_SXX(age, : REGR_SXX is not supported: COUNT, COUNT_IF, SUM, AVG, MEDIAN, QUANTILE, PERCENTILE_CONT, PERCENTILE_DISC, VAR_POP, VAR_SAMP, STDDEV, COVAR_POP, COVAR_SAMP, CORR, REGR_SLOPE, REGR_INTERCEPT and REGR_R2 are supported.

SELECT sex, COUNT(*) FROM t GROUP BY sex ORDER BY ALL, sex
--> ALL, : ORDER BY ALL stands by itself: it has all columns.

SELECT twice + 1 AS x, age * 2 AS twice, COUNT(*) FROM t GROUP BY x, twice
--> twice : There is no column 'twice'. The columns are age, sex, education-num, weight, admitted, smoker, occupation.

SELECT half / 2 AS m, COUNT(*) AS half FROM t
--> half : There is no column 'half'. The columns are age, sex, education-num, weight, admitted, smoker, occupation.

SELECT SHARE(age > 3) FROM t
--> SHARE(age : There is no function 'SHARE'. Write AVG(condition), as AVG(age > 40): the share of the rows where it holds.

SELECT percentile(age, 90) FROM t
--> percentile(age, : There is no function 'percentile'. Write quantile_cont(x, 0.9).
