BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE answers (
	key_id VARCHAR(40) NOT NULL, 
	idempotency_key VARCHAR(200) NOT NULL, 
	body_sha256 VARCHAR(64) NOT NULL, 
	created_at VARCHAR(40) NOT NULL, 
	answer TEXT NOT NULL, 
	PRIMARY KEY (key_id, idempotency_key)
);
INSERT INTO "answers" VALUES('anyone','k1','fe0fd0694fcb51ab41f9721615af38eb02872e5c5941c167cc123dfe744db103','2026-11-17T02:39:57.193Z','{"status":200,"body":{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"skyt/gcd","choices":[{"index":0,"message":{"role":"assistant","content":"```python\ndef gcd(x, y):\n    while y != 0:\n        x, y = (y, x % y)\n    return abs(x)\n```"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":40,"total_tokens":60},"skyt":{"contract":"gcd","matched_by":"model","policy":"repair","request_id":"req_4c2a9b7b1237a4e977554f2f","attempts":1,"canon_id":"gcd@c0817854fc14","canon_signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","normalization_version":"1-py3.11","oracle_version":"2-py3.11","samples":[{"index":0,"run_id":"serve-0001.0000","sample_id":"000000","signature_pre":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","d_pre":0.0,"d_post":0.0,"evidence":"identical","reason":"the normalised text is the canon''s","steps":[],"compliant":true,"counterexample":null,"replaced":true}]}},"headers":{"x-skyt-contract":"gcd","x-skyt-policy":"repair","x-skyt-canon":"gcd@c0817854fc14","x-skyt-signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","x-skyt-d-pre":"0.0","x-skyt-d-post":"0.0","x-skyt-evidence":"identical","x-skyt-normalization-version":"1-py3.11","x-skyt-oracle-version":"2-py3.11"}}');
INSERT INTO "answers" VALUES('anyone','k2','fe0fd0694fcb51ab41f9721615af38eb02872e5c5941c167cc123dfe744db103','2026-11-17T02:39:57.384Z','{"status":200,"body":{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"skyt/gcd","choices":[{"index":0,"message":{"role":"assistant","content":"```python\ndef gcd(a, b):\n    if b == 0:\n        return abs(a)\n    return gcd(b, a % b)\n```"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":40,"total_tokens":60},"skyt":{"contract":"gcd","matched_by":"model","policy":"repair","request_id":"req_cf023096043942f1a793faf4","attempts":1,"canon_id":"gcd@c0817854fc14","canon_signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","normalization_version":"1-py3.11","oracle_version":"2-py3.11","samples":[{"index":0,"run_id":"serve-0001.0000","sample_id":"000001","signature_pre":"ba8cd04756b63ff2eeb64e8f67befebe1340c8a3f3ce4f5a51f293b96847723b","signature":"ba8cd04756b63ff2eeb64e8f67befebe1340c8a3f3ce4f5a51f293b96847723b","d_pre":0.4473684210526316,"d_post":0.4473684210526316,"evidence":"none","reason":"other normal form than the canon","steps":[],"compliant":true,"counterexample":null,"replaced":false}]}},"headers":{"x-skyt-contract":"gcd","x-skyt-policy":"repair","x-skyt-canon":"gcd@c0817854fc14","x-skyt-signature":"ba8cd04756b63ff2eeb64e8f67befebe1340c8a3f3ce4f5a51f293b96847723b","x-skyt-d-pre":"0.4473684210526316","x-skyt-d-post":"0.4473684210526316","x-skyt-evidence":"none","x-skyt-normalization-version":"1-py3.11","x-skyt-oracle-version":"2-py3.11"}}');
INSERT INTO "answers" VALUES('anyone','k3','fe0fd0694fcb51ab41f9721615af38eb02872e5c5941c167cc123dfe744db103','2026-11-17T02:39:57.632Z','{"status":200,"body":{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"skyt/gcd","choices":[{"index":0,"message":{"role":"assistant","content":"```python\nimport math\n\ndef gcd(a, b):\n    return math.gcd(a, b)\n```"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":40,"total_tokens":60},"skyt":{"contract":"gcd","matched_by":"model","policy":"repair","request_id":"req_120478beeb192cceb590f1ff","attempts":1,"canon_id":"gcd@c0817854fc14","canon_signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","normalization_version":"1-py3.11","oracle_version":"2-py3.11","samples":[{"index":0,"run_id":"serve-0001.0000","sample_id":"000002","signature_pre":"d141c22444eff2fdbd8baec5832d1130dc4610c31c2fd9b560121b8289c06a51","signature":"d141c22444eff2fdbd8baec5832d1130dc4610c31c2fd9b560121b8289c06a51","d_pre":0.8157894736842105,"d_post":0.8157894736842105,"evidence":"none","reason":"other normal form than the canon; rejected by the oracle","steps":[],"compliant":false,"counterexample":null,"replaced":false}]}},"headers":{"x-skyt-contract":"gcd","x-skyt-policy":"repair","x-skyt-canon":"gcd@c0817854fc14","x-skyt-signature":"d141c22444eff2fdbd8baec5832d1130dc4610c31c2fd9b560121b8289c06a51","x-skyt-d-pre":"0.8157894736842105","x-skyt-d-post":"0.8157894736842105","x-skyt-evidence":"none","x-skyt-normalization-version":"1-py3.11","x-skyt-oracle-version":"2-py3.11"}}');
INSERT INTO "answers" VALUES('anyone','k4','fe0fd0694fcb51ab41f9721615af38eb02872e5c5941c167cc123dfe744db103','2026-11-17T02:39:57.752Z','{"status":200,"body":{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"skyt/gcd","choices":[{"index":0,"message":{"role":"assistant","content":"```python\ndef gcd(a, b):\n    return 1\n```"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":40,"total_tokens":60},"skyt":{"contract":"gcd","matched_by":"model","policy":"repair","request_id":"req_214fa2bdb05023abd0514bcb","attempts":1,"canon_id":"gcd@c0817854fc14","canon_signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","normalization_version":"1-py3.11","oracle_version":"2-py3.11","samples":[{"index":0,"run_id":"serve-0001.0000","sample_id":"000003","signature_pre":"14515212e9c49d4f92a5f8bc4d71305dc3cf37ebd02087c53e844857d2a5d8d8","signature":"14515212e9c49d4f92a5f8bc4d71305dc3cf37ebd02087c53e844857d2a5d8d8","d_pre":0.6842105263157895,"d_post":0.6842105263157895,"evidence":"none","reason":"other normal form than the canon; rejected by the oracle","steps":[],"compliant":false,"counterexample":{"call":{"args":[48,18]},"shown":"gcd(48, 18)","expected":"6","got":"1"},"replaced":false}]}},"headers":{"x-skyt-contract":"gcd","x-skyt-policy":"repair","x-skyt-canon":"gcd@c0817854fc14","x-skyt-signature":"14515212e9c49d4f92a5f8bc4d71305dc3cf37ebd02087c53e844857d2a5d8d8","x-skyt-d-pre":"0.6842105263157895","x-skyt-d-post":"0.6842105263157895","x-skyt-evidence":"none","x-skyt-normalization-version":"1-py3.11","x-skyt-oracle-version":"2-py3.11"}}');
INSERT INTO "answers" VALUES('anyone','k5','fe0fd0694fcb51ab41f9721615af38eb02872e5c5941c167cc123dfe744db103','2026-11-17T02:39:57.833Z','{"status":200,"body":{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"skyt/gcd","choices":[{"index":0,"message":{"role":"assistant","content":"```python\ndef gcd(x, y):\n    while y != 0:\n        x, y = (y, x % y)\n    return abs(x)\n```"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":40,"total_tokens":60},"skyt":{"contract":"gcd","matched_by":"model","policy":"repair","request_id":"req_f9cccdcd40007dca37552b46","attempts":1,"canon_id":"gcd@c0817854fc14","canon_signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","normalization_version":"1-py3.11","oracle_version":"2-py3.11","samples":[{"index":0,"run_id":"serve-0001.0000","sample_id":"000004","signature_pre":"f0aa6b4b8e122c68e9239ffdbe535ee0b425b62eafd38462e1a638bbba6bdced","signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","d_pre":0.18421052631578946,"d_post":0.0,"evidence":"rewritten","reason":"same normal form","steps":["truth-of-integer","absolute","rename-private"],"compliant":true,"counterexample":null,"replaced":true}]}},"headers":{"x-skyt-contract":"gcd","x-skyt-policy":"repair","x-skyt-canon":"gcd@c0817854fc14","x-skyt-signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","x-skyt-d-pre":"0.18421052631578946","x-skyt-d-post":"0.0","x-skyt-evidence":"rewritten","x-skyt-normalization-version":"1-py3.11","x-skyt-oracle-version":"2-py3.11"}}');
CREATE TABLE api_keys (
	id VARCHAR(40) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	contracts TEXT, 
	created_at VARCHAR(40) NOT NULL, 
	revoked_at VARCHAR(40), 
	PRIMARY KEY (id), 
	UNIQUE (name), 
	UNIQUE (sha256)
);
INSERT INTO "api_keys" VALUES('key_000000000001','ci','d87ba262b8b3d2a00c59f17eff21a095986c2fa93ca9b99a5e52101be9378486','["gcd"]','2026-11-17T02:40:00.000Z',NULL);
CREATE TABLE archived_canons (
	id INTEGER NOT NULL, 
	prompt_id VARCHAR(200) NOT NULL, 
	canon_signature VARCHAR(64) NOT NULL, 
	record TEXT NOT NULL, 
	archived_at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE canons (
	prompt_id VARCHAR(200) NOT NULL, 
	canon_signature VARCHAR(64) NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (prompt_id)
);
INSERT INTO "canons" VALUES('gcd','c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503','{"contract_id":"gcd","canon_signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","oracle_version":"2-py3.11","normalization_version":"1-py3.11","fixed_at_timestamp":"2026-11-17T02:39:57.167Z","prompt_id":"gcd","model":"scripted","temperature":0.7,"function_signatures":["gcd(a: int, b: int) -> int"],"constraints_snapshot":{"id":"gcd","prompt":"Write a Python function called ''gcd'' that takes two positive integers a and b and returns their greatest common divisor, using Euclid''s algorithm.","entry_point":{"kind":"function","name":"gcd","parameters":[{"name":"a","type":"int"},{"name":"b","type":"int"}],"returns":"int","methods":[]},"constraints":{"recursion":"any","imports":[],"naming":"lenient","forbidden_calls":[]},"domain":{"parameters":{"a":{"type":"int","min":1,"max":null,"sample_min":null,"sample_max":20000,"interesting":[12,48,60,97,360,1024,1071,2310,10007],"draw_from":null},"b":{"type":"int","min":1,"max":null,"sample_min":null,"sample_max":20000,"interesting":[12,18,60,97,360,462,1024,2310,10007],"draw_from":"a"}},"methods":{},"max_operations":40},"oracle":{"cases":[{"args":[48,18],"returns":6,"raises":null,"operations":null,"note":""},{"args":[18,48],"returns":6,"raises":null,"operations":null,"note":""},{"args":[100,50],"returns":50,"raises":null,"operations":null,"note":""},{"args":[17,19],"returns":1,"raises":null,"operations":null,"note":""},{"args":[1071,462],"returns":21,"raises":null,"operations":null,"note":""},{"args":[12,12],"returns":12,"raises":null,"operations":null,"note":""},{"args":[1,5],"returns":1,"raises":null,"operations":null,"note":""},{"args":[12000,18000],"returns":6000,"raises":null,"operations":null,"note":""},{"args":[2880067194370816120,1100087778366101931],"returns":1,"raises":null,"operations":null,"note":"beyond what a float can hold exactly"},{"args":[2880067194370816120,12586269025],"returns":55,"raises":null,"operations":null,"note":""}],"properties":[{"name":"greatest common divisor by trial","reference":"def gcd(a, b):\n    common = 1\n    for p in range(2, min(a, b) + 1):\n        if p * p > min(a, b):\n            break\n        while a % p == 0 and b % p == 0:\n            a, b, common = a // p, b // p, common * p\n        while a % p == 0:\n            a //= p\n        while b % p == 0:\n            b //= p\n    if a > 1 and b % a == 0:\n        common *= a\n    elif b > 1 and a % b == 0:\n        common *= b\n    return common\n","readings":null,"holds":null,"then":null,"when":null,"setup":""}],"generated":200,"mutates_arguments":false},"out_of_domain":{"policy":"any","exceptions":["ValueError","TypeError"],"calls":[]},"contract_hash":"5a372946f9089c5f8aa9fa7068287d185af6e26f8cf7c142d66e3d0fd75038aa"},"normalized_code":"def gcd(x, y):\n    while y != 0:\n        x, y = (y, x % y)\n    return abs(x)","origin":"first_compliant"}');
CREATE TABLE ledgers (
	name VARCHAR(200) NOT NULL, 
	created_at VARCHAR(40) NOT NULL, 
	next_sample BIGINT NOT NULL, 
	next_run INTEGER NOT NULL, 
	closed_at VARCHAR(40), 
	PRIMARY KEY (name)
);
INSERT INTO "ledgers" VALUES('serve-0001','2026-11-17T02:39:57.173Z',5,1,NULL);
CREATE TABLE metrics (
	id INTEGER NOT NULL, 
	ledger VARCHAR(200) NOT NULL, 
	prompt_id VARCHAR(200) NOT NULL, 
	timestamp VARCHAR(40) NOT NULL, 
	"N" BIGINT NOT NULL, 
	"R_raw" FLOAT NOT NULL, 
	"R_anchor" FLOAT NOT NULL, 
	mu_pre FLOAT NOT NULL, 
	mu_post FLOAT NOT NULL, 
	"delta_R_anchor" FLOAT NOT NULL, 
	delta_mu FLOAT NOT NULL, 
	"P_tau_pre" FLOAT NOT NULL, 
	"P_tau_post" FLOAT NOT NULL, 
	"delta_P_tau" FLOAT NOT NULL, 
	rescue_rate FLOAT NOT NULL, 
	tau FLOAT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(ledger) REFERENCES ledgers (name)
);
INSERT INTO "metrics" VALUES(1,'serve-0001','gcd','2026-11-17T02:39:58.012Z',5,0.2,0.4,4.26315789473684203514e-01,3.89473684210526305271e-01,0.4,-0.0368421052631579,0.2,0.4,0.2,0.2,0.1);
CREATE TABLE runs (
	run_id VARCHAR(240) NOT NULL, 
	ledger VARCHAR(200) NOT NULL, 
	number INTEGER NOT NULL, 
	prompt_id VARCHAR(200) NOT NULL, 
	mode VARCHAR(40) NOT NULL, 
	timestamp VARCHAR(40) NOT NULL, 
	model TEXT NOT NULL, 
	temperature FLOAT NOT NULL, 
	seed BIGINT, 
	oracle_version VARCHAR(80) NOT NULL, 
	normalization_version VARCHAR(80) NOT NULL, 
	contract_id VARCHAR(200) NOT NULL, 
	PRIMARY KEY (run_id), 
	UNIQUE (ledger, number), 
	FOREIGN KEY(ledger) REFERENCES ledgers (name)
);
INSERT INTO "runs" VALUES('serve-0001.0000','serve-0001',0,'gcd','serve','2026-11-17T02:39:57.193Z','scripted',0.7,0,'2-py3.11','1-py3.11','gcd');
CREATE TABLE samples (
	id INTEGER NOT NULL, 
	ledger VARCHAR(200) NOT NULL, 
	number BIGINT NOT NULL, 
	run_id VARCHAR(240) NOT NULL, 
	prompt_id VARCHAR(200) NOT NULL, 
	normalization_version VARCHAR(80) NOT NULL, 
	signature_pre VARCHAR(64) NOT NULL, 
	signature_post VARCHAR(64) NOT NULL, 
	d_pre FLOAT NOT NULL, 
	d_post FLOAT NOT NULL, 
	compliant_pre BOOLEAN NOT NULL, 
	compliant_post BOOLEAN NOT NULL, 
	evidence VARCHAR(20) NOT NULL, 
	canon_signature VARCHAR(64), 
	attempted BOOLEAN NOT NULL, 
	timestamp VARCHAR(40) NOT NULL, 
	request_id VARCHAR(40), 
	upstream_ms FLOAT, 
	overhead_ms FLOAT, 
	record TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (ledger, number), 
	FOREIGN KEY(ledger) REFERENCES ledgers (name), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO "samples" VALUES(1,'serve-0001',0,'serve-0001.0000','gcd','1-py3.11','c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503','c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503',0.0,0.0,1,1,'identical','c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503',0,'2026-11-17T02:39:57.193Z','req_4c2a9b7b1237a4e977554f2f',6.60935199994128197431e+00,1.20934905000012804521e+02,'{"run_id":"serve-0001.0000","sample_id":"000000","prompt_id":"gcd","contract_id":"gcd","model":"scripted","temperature":0.7,"sample":0,"raw_output":"```python\ndef gcd(x, y):\n    while y != 0:\n        x, y = y, x % y\n    return abs(x)\n```","normalized_pre":"def gcd(x, y):\n    while y != 0:\n        x, y = (y, x % y)\n    return abs(x)","normalized_post":"def gcd(x, y):\n    while y != 0:\n        x, y = (y, x % y)\n    return abs(x)","parsed":true,"signature_pre":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","signature_post":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","d_pre":0.0,"d_post":0.0,"distance_method":"exact","evidence":"identical","reason":"the normalised text is the canon''s","repair_steps":[],"oracle_pre":{"compliant":true,"failures":[],"counterexample":null,"checks":{"parses":true,"constraints":true,"entry_point":true,"cases":true,"arguments":true,"properties":true,"repeatable":true,"out_of_domain":true}},"oracle_post":{"compliant":true,"failures":[],"counterexample":null,"checks":{"parses":true,"constraints":true,"entry_point":true,"cases":true,"arguments":true,"properties":true,"repeatable":true,"out_of_domain":true}},"canon_signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","equivalence":null}');
INSERT INTO "samples" VALUES(2,'serve-0001',1,'serve-0001.0000','gcd','1-py3.11','ba8cd04756b63ff2eeb64e8f67befebe1340c8a3f3ce4f5a51f293b96847723b','ba8cd04756b63ff2eeb64e8f67befebe1340c8a3f3ce4f5a51f293b96847723b',4.47368421052631581869e-01,4.47368421052631581869e-01,1,1,'none','c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503',1,'2026-11-17T02:39:57.384Z','req_cf023096043942f1a793faf4',6.33219999826906132511e-01,1.49624724000204878393e+02,'{"run_id":"serve-0001.0000","sample_id":"000001","prompt_id":"gcd","contract_id":"gcd","model":"scripted","temperature":0.7,"sample":1,"raw_output":"```python\ndef gcd(a, b):\n    if b == 0:\n        return abs(a)\n    return gcd(b, a % b)\n```","normalized_pre":"def gcd(a, b):\n    if b == 0:\n        return abs(a)\n    return gcd(b, a % b)","normalized_post":"def gcd(a, b):\n    if b == 0:\n        return abs(a)\n    return gcd(b, a % b)","parsed":true,"signature_pre":"ba8cd04756b63ff2eeb64e8f67befebe1340c8a3f3ce4f5a51f293b96847723b","signature_post":"ba8cd04756b63ff2eeb64e8f67befebe1340c8a3f3ce4f5a51f293b96847723b","d_pre":0.4473684210526316,"d_post":0.4473684210526316,"distance_method":"exact","evidence":"none","reason":"other normal form than the canon","repair_steps":[],"oracle_pre":{"compliant":true,"failures":[],"counterexample":null,"checks":{"parses":true,"constraints":true,"entry_point":true,"cases":true,"arguments":true,"properties":true,"repeatable":true,"out_of_domain":true}},"oracle_post":{"compliant":true,"failures":[],"counterexample":null,"checks":{"parses":true,"constraints":true,"entry_point":true,"cases":true,"arguments":true,"properties":true,"repeatable":true,"out_of_domain":true}},"canon_signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","equivalence":null}');
INSERT INTO "samples" VALUES(3,'serve-0001',2,'serve-0001.0000','gcd','1-py3.11','d141c22444eff2fdbd8baec5832d1130dc4610c31c2fd9b560121b8289c06a51','d141c22444eff2fdbd8baec5832d1130dc4610c31c2fd9b560121b8289c06a51',8.15789473684210508785e-01,8.15789473684210508785e-01,0,0,'none','c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503',1,'2026-11-17T02:39:57.632Z','req_120478beeb192cceb590f1ff',6.97684999977354891598e-01,7.57864000001973181497e+00,'{"run_id":"serve-0001.0000","sample_id":"000002","prompt_id":"gcd","contract_id":"gcd","model":"scripted","temperature":0.7,"sample":2,"raw_output":"```python\nimport math\n\ndef gcd(a, b):\n    return math.gcd(a, b)\n```","normalized_pre":"import math\n\ndef gcd(a, b):\n    return math.gcd(a, b)","normalized_post":"import math\n\ndef gcd(a, b):\n    return math.gcd(a, b)","parsed":true,"signature_pre":"d141c22444eff2fdbd8baec5832d1130dc4610c31c2fd9b560121b8289c06a51","signature_post":"d141c22444eff2fdbd8baec5832d1130dc4610c31c2fd9b560121b8289c06a51","d_pre":0.8157894736842105,"d_post":0.8157894736842105,"distance_method":"exact","evidence":"none","reason":"other normal form than the canon; rejected by the oracle","repair_steps":[],"oracle_pre":{"compliant":false,"failures":["imports math, which the contract does not allow"],"counterexample":null,"checks":{"parses":true,"constraints":false,"entry_point":null,"cases":null,"arguments":null,"properties":null,"repeatable":null,"out_of_domain":null}},"oracle_post":{"compliant":false,"failures":["imports math, which the contract does not allow"],"counterexample":null,"checks":{"parses":true,"constraints":false,"entry_point":null,"cases":null,"arguments":null,"properties":null,"repeatable":null,"out_of_domain":null}},"canon_signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","equivalence":null}');
INSERT INTO "samples" VALUES(4,'serve-0001',3,'serve-0001.0000','gcd','1-py3.11','14515212e9c49d4f92a5f8bc4d71305dc3cf37ebd02087c53e844857d2a5d8d8','14515212e9c49d4f92a5f8bc4d71305dc3cf37ebd02087c53e844857d2a5d8d8',6.84210526315789491214e-01,6.84210526315789491214e-01,0,0,'none','c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503',1,'2026-11-17T02:39:57.752Z','req_214fa2bdb05023abd0514bcb',0.674880999895322,4.07838380001521727535e+01,'{"run_id":"serve-0001.0000","sample_id":"000003","prompt_id":"gcd","contract_id":"gcd","model":"scripted","temperature":0.7,"sample":3,"raw_output":"```python\ndef gcd(a, b):\n    return 1\n```","normalized_pre":"def gcd(a, b):\n    return 1","normalized_post":"def gcd(a, b):\n    return 1","parsed":true,"signature_pre":"14515212e9c49d4f92a5f8bc4d71305dc3cf37ebd02087c53e844857d2a5d8d8","signature_post":"14515212e9c49d4f92a5f8bc4d71305dc3cf37ebd02087c53e844857d2a5d8d8","d_pre":0.6842105263157895,"d_post":0.6842105263157895,"distance_method":"exact","evidence":"none","reason":"other normal form than the canon; rejected by the oracle","repair_steps":[],"oracle_pre":{"compliant":false,"failures":["listed case: gcd(48, 18) gives 1, not 6"],"counterexample":{"call":{"args":[48,18]},"shown":"gcd(48, 18)","expected":"6","got":"1"},"checks":{"parses":true,"constraints":true,"entry_point":true,"cases":false,"arguments":null,"properties":null,"repeatable":null,"out_of_domain":null}},"oracle_post":{"compliant":false,"failures":["listed case: gcd(48, 18) gives 1, not 6"],"counterexample":{"call":{"args":[48,18]},"shown":"gcd(48, 18)","expected":"6","got":"1"},"checks":{"parses":true,"constraints":true,"entry_point":true,"cases":false,"arguments":null,"properties":null,"repeatable":null,"out_of_domain":null}},"canon_signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","equivalence":null}');
INSERT INTO "samples" VALUES(5,'serve-0001',4,'serve-0001.0000','gcd','1-py3.11','f0aa6b4b8e122c68e9239ffdbe535ee0b425b62eafd38462e1a638bbba6bdced','c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503',1.84210526315789463458e-01,0.0,1,1,'rewritten','c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503',1,'2026-11-17T02:39:57.833Z','req_f9cccdcd40007dca37552b46',6.17937000015444937162e-01,4.05752080000638670753e+01,'{"run_id":"serve-0001.0000","sample_id":"000004","prompt_id":"gcd","contract_id":"gcd","model":"scripted","temperature":0.7,"sample":4,"raw_output":"```python\ndef gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return abs(a)\n```","normalized_pre":"def gcd(a, b):\n    while b:\n        a, b = (b, a % b)\n    return abs(a)","normalized_post":"def gcd(x, y):\n    while y != 0:\n        x, y = (y, x % y)\n    return abs(x)","parsed":true,"signature_pre":"f0aa6b4b8e122c68e9239ffdbe535ee0b425b62eafd38462e1a638bbba6bdced","signature_post":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","d_pre":0.18421052631578946,"d_post":0.0,"distance_method":"exact","evidence":"rewritten","reason":"same normal form","repair_steps":["truth-of-integer","absolute","rename-private"],"oracle_pre":{"compliant":true,"failures":[],"counterexample":null,"checks":{"parses":true,"constraints":true,"entry_point":true,"cases":true,"arguments":true,"properties":true,"repeatable":true,"out_of_domain":true}},"oracle_post":{"compliant":true,"failures":[],"counterexample":null,"checks":{"parses":true,"constraints":true,"entry_point":true,"cases":true,"arguments":true,"properties":true,"repeatable":true,"out_of_domain":true}},"canon_signature":"c0817854fc14457a8fc96c05230777c7047286923ed77c97b19250a7e37f5503","equivalence":null}');
CREATE INDEX ix_archived_canons_prompt_id ON archived_canons (prompt_id);
CREATE INDEX samples_by_prompt ON samples (prompt_id, id);
CREATE INDEX metrics_by_prompt ON metrics (prompt_id, id);
COMMIT;
