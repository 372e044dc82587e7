SELECT COUNT(*), SUM(pay) FROM t
--> several aggregates

SELECT sex, COUNT(*) AS n, SUM(pay) AS pays, AVG(age) AS age FROM t GROUP BY sex
--> several aggregates by group, aliases

SELECT 100.0 * SUM(pay) / COUNT(*) AS p FROM t WHERE age > 3
--> a ratio that is an average

SELECT dept, SUM(pay) - SUM(age) AS d, 2 * COUNT(*) + 3 AS n FROM t GROUP BY dept
--> linear combinations

SELECT COUNT(*) FILTER (WHERE pay > 2) - COUNT(*) FILTER (WHERE pay <= 2) FROM t
--> a difference of counts with conditions

SELECT sex, COUNT(*) FILTER (WHERE dept = 'A') FROM t GROUP BY sex
--> FILTER by group

SELECT COUNT_IF(age >= 5), COUNT(sex), COUNT(*) - COUNT(sex) AS missing FROM t
--> COUNT_IF and COUNT(x)

SELECT SUM(CASE WHEN dept = 'A' THEN pay ELSE 0 END), AVG(CASE WHEN pay > 1 THEN 1.0 ELSE 0.5 END) FROM t
--> CASE

SELECT SUM(pay) / SUM(age) FROM t
--> a ratio of two sums

SELECT AVG(pay) FILTER (WHERE sex = 'F') - AVG(pay) FILTER (WHERE sex = 'M') FROM t
--> a difference of averages

SELECT round(AVG(pay) / AVG(age), 3), sqrt(COUNT(*)), abs(SUM(pay) - SUM(age)) FROM t
--> functions of aggregates

SELECT 1 - COUNT(*) FILTER (WHERE pay = 0) * 1.0 / nullif(COUNT(*), 0) FROM t
--> a share

SELECT floor(age / 2) AS half, COUNT(*) FROM t GROUP BY half
--> GROUP BY an expression

SELECT CASE WHEN age < 3 THEN 'young' WHEN age < 8 THEN 'middle' END AS band, AVG(pay) FROM t GROUP BY band
--> GROUP BY CASE

SELECT sex, age % 2, SUM(pay) FROM t WHERE dept <> 'C' GROUP BY 1, 2
--> GROUP BY positions

SELECT sex, dept, COUNT(*) FROM t GROUP BY ROLLUP (sex, dept)
--> ROLLUP

SELECT dept, COUNT(*), SUM(pay) FROM t GROUP BY GROUPING SETS ((dept), ())
--> GROUPING SETS

SELECT sex, age > 4, COUNT(*) FROM t GROUP BY CUBE (sex, age > 4)
--> CUBE of an expression

SELECT dept, COUNT(*) AS n FROM t GROUP BY dept HAVING COUNT(*) > 12 ORDER BY n DESC, dept
--> HAVING and ORDER BY

SELECT age, SUM(pay) AS pays FROM t GROUP BY age ORDER BY pays DESC, age LIMIT 3
--> ORDER BY and LIMIT

SELECT age, COUNT(*) FROM t GROUP BY age ORDER BY age DESC LIMIT 2 OFFSET 3
--> OFFSET

SELECT dept, COUNT(*) FROM t GROUP BY dept HAVING AVG(pay) >= 2 AND dept <> 'B' ORDER BY SUM(age) / COUNT(*)
--> HAVING by other aggregates

SELECT MEDIAN(age), MEDIAN(pay) FROM t
--> medians

SELECT sex, QUANTILE_DISC(age, .25), QUANTILE_CONT(age, 0.9) FROM t GROUP BY sex
--> quantiles by group

SELECT PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY age), PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY age) FROM t
--> percentiles

SELECT VAR_POP(age), VAR_SAMP(pay), STDDEV(age), STDDEV_POP(pay), VARIANCE(age) FROM t
--> variances

SELECT dept, STDDEV(pay) FROM t GROUP BY dept
--> standard deviations by group

SELECT COVAR_POP(age, pay), COVAR_SAMP(pay, age) FROM t
--> covariances

SELECT CORR(age, pay), REGR_SLOPE(age, pay), REGR_INTERCEPT(age, pay), REGR_R2(age, pay) FROM t
--> correlation and regression

SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM t GROUP BY sex
--> shares of a total

SELECT sex, dept, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY sex) AS percent FROM t WHERE age > 1 GROUP BY sex, dept
--> shares within a column

SELECT dept, 1 - COUNT(*) FILTER (WHERE pay > 2) / SUM(COUNT(*)) OVER () AS rest, SUM(COUNT(*)) OVER () AS n FROM t GROUP BY dept
--> a total beside groups

SELECT dept, COUNT(*) / (SELECT COUNT(*) FROM t) AS share FROM t WHERE age > 4 GROUP BY ROLLUP (dept)
--> shares of a sub-select

SELECT COUNT(*) / (SELECT COUNT(*) FROM t WHERE sex = 'F') FROM t WHERE sex = 'F' AND age > 4
--> a share without groups

SELECT floor(age / 5) AS half, SUM(pay) / SUM(SUM(pay)) OVER () AS paid FROM t GROUP BY half
--> shares of a sum

SELECT dept, COUNT(*) AS n FROM t GROUP BY dept HAVING COUNT(*) > 0.3 * (SELECT COUNT(*) FROM t) ORDER BY ALL DESC
--> HAVING by a total, ORDER BY ALL

WITH w AS (SELECT * FROM t WHERE age > 4), f AS (SELECT pay AS p, age + 1 AS next FROM w WHERE sex = 'F') SELECT next, AVG(p), COUNT(*) / (SELECT COUNT(*) FROM f) AS share FROM f WHERE p < 5 OR next > 6 GROUP BY next
--> WITH rows of the table

SELECT w.dept, COUNT(*) FROM (SELECT dept, pay FROM t AS s WHERE s.age > 4) AS w WHERE w.pay > 1 GROUP BY w.dept
--> a sub-select in FROM

SELECT age // 2 AS half, half * 2 AS even, COUNT(*) AS n, n / 2 AS m, SUM(half) FROM t WHERE half > 0 GROUP BY half
--> lateral aliases

SELECT t.sex, age AS years, years + 1 AS next, upper(t.sex) AS letter, COUNT(*) FROM t GROUP BY t.sex, years
--> expressions of the columns of GROUP BY

SELECT r.region, COUNT(*) FROM t JOIN depts AS r ON r.dept = t.dept GROUP BY r.region
--> an inner join

SELECT region, SUM(pay) AS pays FROM t LEFT JOIN depts USING (dept) GROUP BY region
--> a left join

SELECT SUM(floor_no * pay), COUNT(*) FROM t JOIN depts ON t.dept = depts.dept WHERE region IS NOT NULL
--> columns of a joined table

SELECT COUNT(*) FROM t WHERE dept IN (SELECT dept FROM depts WHERE floor_no > 1)
--> IN

SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM depts AS r WHERE r.dept = t.dept AND r.floor_no < t.pay)
--> a correlated EXISTS

SELECT COUNT(*) FROM t WHERE pay > (SELECT avg(floor_no) FROM depts)
--> a scalar sub-select

SELECT SUM((SELECT max(r.floor_no) FROM depts AS r WHERE r.dept = t.dept)) FROM t
--> a correlated scalar sub-select

SELECT COUNT(*) FROM t WHERE (age << 1) > 6 AND (age >> 1) < 4
--> shifts

SELECT sex FROM t GROUP BY sex HAVING COUNT(*) > 0
--> refused: must ask for an aggregate

SELECT COUNT(*), ROW_NUMBER() OVER (ORDER BY age) FROM t
--> refused: Window functions

SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM t
--> refused: ask each question by itself

SELECT COUNT(*), unnest([1, 2]) FROM t
--> refused: not supported

WITH high AS (SELECT dept, 10 * floor_no AS metres FROM depts AS d WHERE d.floor_no > 1), higher AS (SELECT dept FROM high WHERE metres > 20) SELECT COUNT(*), SUM(metres) FROM t JOIN high ON high.dept = t.dept WHERE t.dept IN (SELECT dept FROM higher)
--> WITH

WITH mine AS (SELECT dept FROM t) SELECT COUNT(*) FROM t
--> WITH that nothing reads

WITH depts AS (SELECT dept FROM depts) SELECT COUNT(*) FROM t
--> refused: There is a table 'depts' already

WITH RECURSIVE x AS (SELECT dept FROM depts) SELECT COUNT(*) FROM t
--> refused: WITH is written as

WITH x AS (SELECT max(floor_no) AS m FROM depts) SELECT COUNT(*) FROM t
--> refused: max cannot be used here

WITH x AS (SELECT dept FROM depts, t) SELECT COUNT(*) FROM t
--> refused: WITH is written as

WITH x AS (SELECT dept FROM depts UNION SELECT dept FROM depts) SELECT COUNT(*) FROM t
--> refused: ask each question by itself

WITH x AS (SELECT dept FROM depts WHERE random() < 1) SELECT COUNT(*) FROM t
--> refused: random is not supported

WITH x AS (SELECT dept FROM depts)
--> refused: A question is missing after WITH

SELECT sex, SUM(pay > 2), SUM(CASE WHEN age < 5 THEN 1 ELSE 0 END), SUM(sex = 'F' OR pay > 3) FROM t GROUP BY sex
--> sums of conditions
