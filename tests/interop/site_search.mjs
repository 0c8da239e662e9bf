// Run the search worker of the built site: node site_search.mjs SITE < queries.json > results.json
// A result is the list of the pages for a query, best first, as the site's search box shows them.
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const site = process.argv[2];
const workers = path.join(site, "assets", "javascripts", "workers");
const worker = fs.readdirSync(workers).find(name => /^search\..*\.js$/.test(name));
const { config, docs } = JSON.parse(fs.readFileSync(path.join(site, "search", "search_index.json"), "utf8"));
const queries = JSON.parse(fs.readFileSync(0, "utf8"));

let listener, resolve;
const context = {
  addEventListener: (_, given) => { listener = given; },
  postMessage: message => resolve(message),
  console,
};
context.self = context.window = context.globalThis = context;
vm.runInNewContext(fs.readFileSync(path.join(workers, worker), "utf8"), context);
const ask = (type, data) => new Promise(done => { resolve = done; listener({ data: { type, data } }); });

await ask(0, { config, docs, options: { suggest: false } });
const results = [];
for (const query of queries) {
  const { data } = await ask(2, query);
  results.push(data.items.map(sections => sections[0].location.replace(/#.*/, "")));
}
process.stdout.write(JSON.stringify(results));
