// Pictures are scaled to the column of text: a click opens them in full size.
document.addEventListener("DOMContentLoaded", () => {
  for (const picture of document.querySelectorAll(".bd-article img")) {
    if (picture.closest("a, .math, .sphx-glr-thumbcontainer, .sd-card")) continue;
    const link = document.createElement("a");
    link.href = picture.src;
    link.title = "full size";
    picture.replaceWith(link);
    link.append(picture);
  }
});
