SELECT COUNT(*) FROM t
--> count

select count(*) from t;
--> count

SELECT COUNT(*) AS n FROM "adult view" AS v WHERE v.AGE > 30 -- the older ones
--> count
--> where "age" > 30  [age]

SELECT sex, COUNT(*) FROM t WHERE age > 30 AND occupation = 'Craft-repair' GROUP BY sex
--> count
--> where "age" > 30  [age]
--> where "occupation" = 'Craft-repair'  [occupation]
--> by sex

SELECT COUNT(*), sex, smoker FROM main.t GROUP BY smoker, 2
--> count
--> by sex
--> by smoker

SELECT t.sex AS s, COUNT(*) FROM t GROUP BY s
--> count
--> by sex

SELECT sex, smoker, COUNT(*) FROM t GROUP BY ALL
--> count
--> by sex
--> by smoker

SELECT COUNT(*) FROM t GROUP BY sex, age
--> count
--> by sex
--> by age

SELECT AVG(age) FROM t WHERE occupation = 'Teacher''s aide'
--> mean "age"
--> where "occupation" = 'Teacher''s aide'  [occupation]

SELECT SUM("education-num") FROM t
--> sum "education-num"
--> where ("education-num") IS NOT NULL  [education-num]

SELECT SUM((age)) FROM t
--> sum "age"

SELECT AVG(2 * age + .5) FROM t WHERE (age) < 1e2
--> mean 2 * "age" + .5
--> where ("age") < 1e2  [age]
--> where (2 * "age" + .5) IS NOT NULL  [age]

SELECT COUNT("Education-Num") FROM t
--> count
--> where ("education-num") IS NOT NULL  [education-num]

SELECT COUNT(age) FROM t
--> count

SELECT COUNT(nullif(sex, 'Male')) FROM t
--> count
--> where (nullif("sex", 'Male')) IS NOT NULL  [sex]

SELECT COUNT(*) FROM t WHERE ((age >= 20 AND (sex = 'Male')) AND (smoker AND NOT (sex = 'a' AND age = 1)))
--> count
--> where "age" >= 20  [age]
--> where "sex" = 'Male'  [sex]
--> where "smoker"  [smoker]
--> where NOT ("sex" = 'a' AND "age" = 1)  [age, sex]

SELECT COUNT(*) FROM t WHERE age BETWEEN 20 AND 30 AND age NOT BETWEEN -1 AND 25 AND sex = 'Male'
--> count
--> where "age" BETWEEN 20 AND 30  [age]
--> where "age" NOT BETWEEN - 1 AND 25  [age]
--> where "sex" = 'Male'  [sex]

SELECT COUNT(*) FROM t WHERE age > 20 AND sex = 'Male' OR smoker
--> count
--> where "age" > 20 AND "sex" = 'Male' OR "smoker"  [age, sex, smoker]

SELECT COUNT(*) FROM t WHERE CASE WHEN age > 30 AND smoker THEN TRUE ELSE FALSE END AND sex IN ('Male', 'x')
--> count
--> where CASE WHEN "age" > 30 AND "smoker" THEN TRUE ELSE FALSE END  [age, smoker]
--> where "sex" IN ('Male', 'x')  [sex]
--> note 'x' is not in the domain of 'sex', so no row has it.

SELECT COUNT(*) FROM t WHERE sex NOT IN ('Male') AND occupation IS NOT NULL AND smoker IS NULL AND smoker IS NOT TRUE
--> count
--> where "sex" NOT IN ('Male')  [sex]
--> where "occupation" IS NOT NULL  [occupation]
--> where "smoker" IS NULL  [smoker]
--> where "smoker" IS NOT TRUE  [smoker]

SELECT COUNT(*) FROM t WHERE occupation LIKE 'S%' AND occupation NOT ILIKE '%s$%' ESCAPE '$' AND sex SIMILAR TO 'M.*' AND sex GLOB 'M*'
--> count
--> where "occupation" LIKE 'S%'  [occupation]
--> where "occupation" NOT ILIKE '%s$%' ESCAPE '$'  [occupation]
--> where "sex" SIMILAR TO 'M.*'  [sex]
--> where "sex" GLOB 'M*'  [sex]

SELECT COUNT(*) FROM t WHERE age IS DISTINCT FROM 20 AND "education-num" IS NOT DISTINCT FROM NULL
--> count
--> where "age" IS DISTINCT FROM 20  [age]
--> where "education-num" IS NOT DISTINCT FROM NULL  [education-num]

SELECT COUNT(*) FROM t WHERE 1 = 1 AND TRUE AND 30 < age AND age != 40 AND age == 50
--> count
--> where 1 = 1  []
--> where TRUE  []
--> where 30 < "age"  [age]
--> where "age" != 40  [age]
--> where "age" == 50  [age]

SELECT COUNT(*) FROM t WHERE lower(sex) = 'male' AND regexp_matches(occupation, '^[CS]') AND length(sex) % 2 = 0
--> count
--> where lower("sex") = 'male'  [sex]
--> where regexp_matches("occupation", '^[CS]')  [occupation]
--> where length("sex") % 2 = 0  [sex]

SELECT COUNT(*) FROM t WHERE CAST(age AS VARCHAR) LIKE '3%' AND age::DECIMAL(10, 2) / 3 > 10 AND TRY_CAST(sex AS INTEGER) IS NULL
--> count
--> where CAST("age" AS VARCHAR) LIKE '3%'  [age]
--> where "age"::DECIMAL (10, 2) / 3 > 10  [age]
--> where TRY_CAST("sex" AS INTEGER) IS NULL  [sex]

SELECT COUNT(*) FROM t WHERE -age + 2 ** 3 // 2 - 1 < ~age & 3 AND sex || '!' = 'Male!'
--> count
--> where - "age" + 2 ** 3 // 2 - 1 < ~ "age" & 3  [age]
--> where "sex" || '!' = 'Male!'  [sex]

SELECT COUNT(*) FROM t WHERE EXTRACT(year FROM admitted) = 2020 AND admitted + INTERVAL 1 MONTH >= DATE '2020-03-01' AND date_part('month', admitted) < 4 AND month(admitted) < 4
--> count
--> where EXTRACT(YEAR FROM "admitted") = 2020  [admitted]
--> where "admitted" + INTERVAL 1 MONTH >= DATE '2020-03-01'  [admitted]
--> where date_part('month', "admitted") < 4  [admitted]
--> where month("admitted") < 4  [admitted]

SELECT COUNT(*) FROM t WHERE substring(sex FROM 1 FOR 1) = 'M' AND trim(BOTH ' ' FROM sex) = 'Male' AND position('a' IN sex) > 0 AND coalesce(occupation, 'none') <> 'none'
--> count
--> where substring("sex" FROM 1 FOR 1) = 'M'  [sex]
--> where trim(BOTH ' ' FROM "sex") = 'Male'  [sex]
--> where position('a' IN "sex") > 0  [sex]
--> where coalesce("occupation", 'none') <> 'none'  [occupation]

SELECT COUNT(*) FROM t WHERE age IN (SELECT AGE FROM Ages)
--> count
--> where "age" IN (SELECT "age" FROM "ages")  [age]

SELECT COUNT(*) FROM t WHERE sex = 'Male' AND t.age NOT IN (SELECT a.age FROM ages AS a WHERE a.young AND age < 30)
--> count
--> where "sex" = 'Male'  [sex]
--> where "age" NOT IN (SELECT "age" FROM "ages" AS "a" WHERE "young" AND "age" < 30)  [age]

SELECT COUNT(*) FROM t WHERE weight < 70.5 AND weight > 60 AND weight BETWEEN 50 AND 80
--> count
--> where "weight" < 70.5  [weight]
--> where "weight" > 60  [weight]
--> where "weight" BETWEEN 50 AND 80  [weight]

SELECT COUNT(*) FROM t WHERE weight = 60.25 AND weight <> 60 AND weight IN (120, -3)
--> count
--> where "weight" = 60.25  [weight]
--> where "weight" <> 60  [weight]
--> where "weight" IN (120, - 3)  [weight]

SELECT AVG(weight) FROM t
--> mean "weight"

SELECT COUNT(*) FROM t WHERE admitted >= '2021-03-01' AND admitted < DATE '2022-03-01'
--> count
--> where "admitted" >= '2021-03-01'  [admitted]
--> where "admitted" < DATE '2022-03-01'  [admitted]

SELECT COUNT(*) FROM t WHERE admitted > '2021-03-01' AND '2022-03-15' >= admitted
--> count
--> where "admitted" > '2021-03-01'  [admitted]
--> where '2022-03-15' >= "admitted"  [admitted]

SELECT COUNT(*) FROM t WHERE admitted BETWEEN '2021-03-01' AND '2021-04-30'
--> count
--> where "admitted" BETWEEN '2021-03-01' AND '2021-04-30'  [admitted]

SELECT COUNT(*) FROM t WHERE sex = '( a ,b );--''' AND occupation = ''
--> count
--> where "sex" = '( a ,b );--'''  [sex]
--> where "occupation" = ''  [occupation]
--> note '( a ,b );--'' is not in the domain of 'sex', so no row has it.
--> note '' is not in the domain of 'occupation', so no row has it.
