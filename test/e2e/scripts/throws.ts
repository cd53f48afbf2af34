// A script with a bug: it joins the cluster in one of two ways, and then throws.

import { connect } from "weighbridge";
import { start } from "weighbridge/node";

await (process.argv[2] === "connect" ? connect() : start());
throw new Error("my own bug");
