// The protocol's own conformance suite against our server and our client.
//
// A gateway has the server under /mcp; the suite cannot send a token, so a proxy adds it, and whatever else it sends
// arrives as it was sent. Most scenarios want tools, prompts and resources with fixed names: `tidegate-testkit
// mcp-fixture` is the same server with those. The client is the program itself, with a browser that a file here plays.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import http from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

const here = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const suite = path.join(here, 'node_modules/@modelcontextprotocol/conformance/dist/index.js')

// What a gateway itself can show.
const GATEWAY = ['server-initialize', 'ping', 'tools-list', 'resources-list', 'prompts-list', 'logging-set-level', 'server-sse-multiple-streams', 'dns-rebinding-protection']
// What wants the suite's own tools, prompts and resources.
const FIXTURE = [
  'completion-complete',
  'tools-call-simple-text',
  'tools-call-image',
  'tools-call-audio',
  'tools-call-embedded-resource',
  'tools-call-mixed-content',
  'tools-call-with-logging',
  'tools-call-error',
  'tools-call-with-progress',
  'json-schema-2020-12',
  'resources-read-text',
  'resources-read-binary',
  'resources-templates-read',
  'resources-subscribe',
  'resources-unsubscribe',
  'prompts-get-simple',
  'prompts-get-with-args',
  'prompts-get-embedded-resource',
  'prompts-get-with-image',
]
// All others, and why they say nothing about us. A client that could answer our questions could approve its own calls.
const OTHERS = {
  'tools-call-sampling': 'we ask no client for a model',
  'tools-call-elicitation': 'we ask no client for input',
  'elicitation-sep1034-defaults': 'we ask no client for input',
  'elicitation-sep1330-enums': 'we ask no client for input',
  'server-sse-polling': 'we hang up on no call that is under way, and the scenario is about that',
}
const CLIENT = [
  'initialize',
  'tools_call',
  'sse-retry',
  'auth/metadata-default',
  'auth/metadata-var1',
  'auth/metadata-var2',
  'auth/metadata-var3',
  'auth/basic-cimd',
  'auth/scope-from-www-authenticate',
  'auth/scope-from-scopes-supported',
  'auth/scope-omitted-when-undefined',
  'auth/scope-step-up',
  'auth/scope-retry-limit',
  'auth/token-endpoint-auth-basic',
  'auth/token-endpoint-auth-post',
  'auth/token-endpoint-auth-none',
  'auth/pre-registration',
  'auth/2025-03-26-oauth-metadata-backcompat',
  'auth/2025-03-26-oauth-endpoint-fallback',
  'auth/resource-mismatch',
  'auth/offline-access-scope',
  'auth/offline-access-not-supported',
]
const OTHER_CLIENTS = {
  'elicitation-sep1034-client-defaults': 'a server that asks for input gets none',
  'auth/client-credentials-jwt': 'an extension: logins are a person\'s',
  'auth/client-credentials-basic': 'an extension: logins are a person\'s',
  'auth/cross-app-access-complete-flow': 'an extension: logins are a person\'s',
}

let fixture, fixtureUrl, gateway, home, proxy, url

const conformance = (...words) =>
  new Promise((resolve) => {
    const program = ['--import', path.join(here, 'conformance/register.mjs'), suite, ...words]
    execFile(process.execPath, program, { cwd: here }, (error, stdout, stderr) => resolve({ code: error?.code ?? 0, said: stdout + stderr }))
  })

before(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'tidegate-mcp-'))
  gateway = spawn(process.env.TIDEGATE_BIN, ['gateway', 'run', '--port', '0', '--json', '--home', home], { stdio: ['ignore', 'pipe', 'inherit'] })
  const port = await new Promise((resolve, reject) => {
    let said = ''
    gateway.stdout.on('data', (chunk) => {
      said += chunk
      const found = said.match(/127\.0\.0\.1:(\d+)/)
      if (found) resolve(Number(found[1]))
    })
    gateway.on('exit', () => reject(new Error(`the gateway ended: ${said}`)))
  })
  const token = (await readFile(path.join(home, 'credentials/local-token'), 'utf8')).trim()
  proxy = http.createServer((request, response) => {
    const own = `127.0.0.1:${proxy.address().port}`
    const headers = { ...request.headers, authorization: `Bearer ${token}` }
    if (headers.host === own) headers.host = `127.0.0.1:${port}`
    if (headers.origin === `http://${own}`) headers.origin = `http://127.0.0.1:${port}`
    const onward = http.request({ host: '127.0.0.1', port, path: request.url, method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    request.pipe(onward)
  })
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${proxy.address().port}/mcp`
  fixture = spawn(process.env.TIDEGATE_TESTKIT, ['mcp-fixture'], { stdio: ['ignore', 'pipe', 'inherit'] })
  fixtureUrl = await new Promise((resolve, reject) => {
    fixture.stdout.once('data', (chunk) => resolve(JSON.parse(chunk).url))
    fixture.on('exit', () => reject(new Error('the fixture ended')))
  })
})

after(async () => {
  fixture?.kill()
  proxy?.closeAllConnections()
  proxy?.close()
  if (gateway?.exitCode === null) {
    gateway.kill('SIGTERM')
    await new Promise((resolve) => gateway.on('exit', resolve))
  }
  if (home) await rm(home, { recursive: true, force: true })
})

test('every scenario of the suite is either run or left out for a reason', async () => {
  const { said } = await conformance('list')
  const [server, client] = said.split('Client scenarios')
  const names = (text) => text.split('\n').flatMap((line) => line.match(/^ {2}- (\S+) \[/)?.[1] ?? [])
  assert.ok(names(server).length >= 30 && names(client).length >= 20, said)
  assert.deepEqual(names(server).sort(), [...GATEWAY, ...FIXTURE, ...Object.keys(OTHERS)].sort())
  assert.deepEqual(names(client).sort(), [...CLIENT, ...Object.keys(OTHER_CLIENTS)].sort())
})

const passes = ({ code, said }) => {
  assert.equal(code, 0, said)
  assert.doesNotMatch(said, /FAILURE|WARNING/, said)
}

for (const scenario of GATEWAY) {
  test(`conformance of a gateway: ${scenario}`, async () => {
    passes(await conformance('server', '--url', url, '--scenario', scenario))
  })
}

for (const scenario of FIXTURE) {
  test(`conformance of the server: ${scenario}`, async () => {
    passes(await conformance('server', '--url', fixtureUrl, '--scenario', scenario))
  })
}

for (const scenario of CLIENT) {
  test(`conformance of the client: ${scenario}`, async () => {
    const client = `${process.execPath} ${path.join(here, 'conformance/client.mjs')}`
    passes(await conformance('client', '--command', client, '--scenario', scenario))
  })
}
