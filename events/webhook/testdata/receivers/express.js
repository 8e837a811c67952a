import express from 'express'
import { Webhook } from 'standardwebhooks'
import { store } from './store.js'

const app = express()
const hook = new Webhook(process.env.SECRET)
app.post('/events', express.raw({ type: () => true, limit: '16mb' }), async (req, res) => {
  let event
  try {
    event = hook.verify(req.body, req.headers)
  } catch {
    return res.sendStatus(401)
  }
  await store(event) // before the answer, and once for each event.id
  res.sendStatus(204)
})
app.listen(process.env.PORT, '127.0.0.1')
