// Goal: a repeated name is found wherever it stands, and nothing else is taken for one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { duplicateKey } from "./duplicate-key.ts";

test("finds a name that stands twice in one object", () => {
  assert.equal(duplicateKey('{"a":1,"b":2,"a":3}'), "a");
  assert.equal(duplicateKey('[{"x":{"a":1 , "b":2,\n"b" : 3}}]'), "b");
  assert.equal(duplicateKey('{"a\\"b":1,"a\\u0022b":2}'), 'a"b');
  assert.equal(duplicateKey('{"":1,"":2}'), "");
});

test("the same name in different objects, and the same text as a value, are no repetition", () => {
  assert.equal(duplicateKey('{"a":{"a":{"a":"a"}},"b":["a","a",{"a":1},{"a":1}]}'), undefined);
  assert.equal(duplicateKey('{"a":"{\\"a\\":1,\\"a\\":2}"}'), undefined);
  assert.equal(duplicateKey('{"a\\\\":1,"a":"x:y"}'), undefined);
  assert.equal(duplicateKey('"a"'), undefined);
  assert.equal(duplicateKey("{}"), undefined);
});
