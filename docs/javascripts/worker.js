// The search runs in a worker. Of pages opened from a folder (file:) browsers refuse workers: there it
// runs in a hidden frame. Loaded in place of the script that the theme would fetch from elsewhere.
if (location.protocol === "file:") {
  const posts = (window.framePosts = [])

  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const number = posts.push(data => this.dispatchEvent(new MessageEvent("message", { data }))) - 1
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc =
        `<script>postMessage = data => parent.framePosts[${number}](data)</script>` +
        `<script src="${url}"></script>`
      this.loaded = new Promise(resolve => frame.addEventListener("load", () => resolve(frame.contentWindow)))
      document.body.append(frame)
    }

    postMessage(data) {
      this.loaded.then(inside => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }
  }
}
