// untraced-promises — what `npm test` preloads into every process of tests: Node's test runner does not trace promises.
//
// The runner watches every promise and timer through an async hook, to tell in which test an error arose that nobody
// caught. A cluster makes millions of promises, and the hook takes a seventh of the time of all simulations. Without it
// such an error still fails its file, under the name of the file instead of that of the test; `node --test` on the
// file, which does not preload this, tells the test.

const asyncHooks = require("node:async_hooks");
const { isMainThread } = require("node:worker_threads");

// Threads that a test starts get the arguments of its process, and load no runner.
if (isMainThread) {
  const { createHook } = asyncHooks;
  asyncHooks.createHook = () => ({ enable: () => {}, disable: () => {} });
  require("node:test"); // The runner takes the function for itself when it is loaded; all others find their own again.
  asyncHooks.createHook = createHook;
}
