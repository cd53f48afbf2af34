// Goal: an address names what people mean by it, and anything else is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../../testing/throws-code.ts";
import { readSchedulerUrl } from "./scheduler-url.ts";

test("an address names one or several schedulers, each at port 9700 unless it says another, and maybe the job", () => {
  const cases: readonly [address: string, schedulers: string, host: string, port: number, job?: string][] = [
    ["weighbridge://ps.example", "ps.example:9700", "ps.example", 9700],
    ["weighbridge://ps.example/", "ps.example:9700", "ps.example", 9700],
    ["weighbridge://127.0.0.1:1234", "127.0.0.1:1234", "127.0.0.1", 1234],
    ["weighbridge://a,b:9701,c", "a:9700,b:9701,c:9700", "a", 9700],
    ["weighbridge://[::1]", "[::1]:9700", "::1", 9700],
    ["weighbridge://[fe80::1]:80,b", "[fe80::1]:80,b:9700", "fe80::1", 80],
    ["weighbridge://a:1/ads", "a:1", "a", 1, "ads"],
    ["weighbridge://a/my%20job", "a:9700", "a", 9700, "my job"],
  ];
  for (const [address, schedulers, schedulerHost, schedulerPort, job] of cases) {
    const expected = { schedulers, schedulerHost, schedulerPort, ...(job === undefined ? {} : { job }) };
    assert.deepEqual(readSchedulerUrl(address), expected, address);
  }
});

test("what is no address is refused, with the form of one", () => {
  const wrong = [
    ...["", "a:9700", "http://a:80", "weighbridge:a", "weighbridge://", "weighbridge:///job", "weighbridge://a:0", "weighbridge://a:99999"],
    ...["weighbridge://a:b", "weighbridge://a:", "weighbridge://u@a", "weighbridge://a?x=1", "weighbridge://a#x", "weighbridge://a/b/c"],
    ...["weighbridge://a,,b", "weighbridge://a,a", "weighbridge://::1", "weighbridge://a b", "WEIGHBRIDGE://a", " weighbridge://a"],
  ];
  for (const address of wrong)
    assert.throws(() => readSchedulerUrl(address), throwsCode("BAD_ARGUMENT", /must be weighbridge:\/\/HOST:PORT/), address);
  assert.throws(() => readSchedulerUrl("weighbridge://a/%zz"), throwsCode("BAD_ARGUMENT", /job's name/));
});
