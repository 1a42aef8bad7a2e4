/* sanitized.h - whether a sanitizer slows the tests down. */
#ifndef NXT_SANITIZED_H
#define NXT_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NXT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NXT_SANITIZED 1
#endif
#endif
#ifndef NXT_SANITIZED
#define NXT_SANITIZED 0
#endif

#endif /* NXT_SANITIZED_H */
